#include "client/init/csv_guess.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

using Record = std::vector<std::string>;

// Lines that tell whether a text is a table.
constexpr size_t kLinesLookedAt = 200;
// Labels with more values are rather numbers to predict.
constexpr size_t kMostClasses = 1000;
// Fewer records say nothing about whether a column's values are all different.
constexpr size_t kRecordsToTell = 20;

// The fields of a line; quotes around a field hide separators. A record over several lines is not
// understood: its lines have other numbers of fields, and are not counted.
Record SplitLine(absl::string_view line, char separator) {
  Record fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      const bool doubled = quoted && i + 1 < line.size() && line[i + 1] == '"';
      if (doubled) fields.back() += line[++i];
      if (!doubled) quoted = !quoted;
    } else if (c == separator && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  for (std::string& field : fields) absl::StripAsciiWhitespace(&field);
  return fields;
}

bool IsNumber(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) && std::isfinite(number);
}

// What the values of one column have in common.
struct Column {
  std::string name;
  bool numeric = true;
  bool whole = true;
  size_t empty = 0;
  double least = 0;
  double most = 0;
  absl::flat_hash_set<std::string> values;

  void Add(const std::string& value) {
    if (value.empty()) {
      ++empty;
      return;
    }
    double number = 0;
    if (!absl::SimpleAtod(value, &number) || !std::isfinite(number)) {
      numeric = false;
    } else {
      if (values.empty()) least = most = number;
      least = std::min(least, number);
      most = std::max(most, number);
      if (number != std::floor(number)) whole = false;
    }
    values.insert(value);
  }

  bool LooksLikeClasses() const {
    if (empty > 0 || values.size() < 2 || values.size() > kMostClasses) return false;
    return !numeric || (whole && least >= -1 && most <= kMostClasses);
  }

  uint32_t Classes() const {
    const auto distinct = static_cast<uint32_t>(values.size());
    if (!numeric || least < 0) return std::max(2u, distinct);
    // Numbers from 1 are counted from there.
    const auto largest = static_cast<uint32_t>(most);
    return std::max(2u, least == 0 ? largest + 1 : largest);
  }
};

bool NumbersOrNamesRecords(const Column& column, size_t records) {
  if (column.name.empty() || column.values.size() <= 1) return true;
  const bool all_differ = records >= kRecordsToTell && column.values.size() > records * 9 / 10;
  if (!column.numeric) return all_differ;
  const std::string name = absl::AsciiStrToLower(column.name);
  const bool named_so = name == "id" || name == "index" || name == "row" ||
                        absl::EndsWith(name, "_id") || absl::StartsWith(name, "unnamed:");
  return named_so && column.whole && column.values.size() == records;
}

// The separator with the most fields that most lines agree on; 0: none.
char FindSeparator(const std::vector<absl::string_view>& lines) {
  char best = 0;
  size_t most = 1;
  for (const char separator : {',', ';', '\t', '|'}) {
    const size_t fields = SplitLine(lines[0], separator).size();
    const size_t looked_at = std::min(lines.size(), kLinesLookedAt);
    size_t agree = 0;
    for (size_t i = 0; i < looked_at; ++i) {
      if (SplitLine(lines[i], separator).size() == fields) ++agree;
    }
    if (fields > most && agree * 10 >= looked_at * 9) {
      most = fields;
      best = separator;
    }
  }
  return best;
}

bool HasNumber(const Record& record) { return std::any_of(record.begin(), record.end(), IsNumber); }

// Where the labels seem to be, and why; npos: nowhere.
std::pair<size_t, std::string> FindLabel(const std::vector<Column>& columns) {
  for (const char* usual : {"label", "target", "class", "y", "outcome", "species", "click",
                            "clicked", "survived", "churn", "diagnosis", "quality"}) {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (absl::EqualsIgnoreCase(columns[i].name, usual) && columns[i].LooksLikeClasses()) {
        return {i, "by its name"};
      }
    }
  }
  if (columns.back().LooksLikeClasses()) return {columns.size() - 1, "because it comes last"};
  if (columns[0].LooksLikeClasses()) return {0, "because it comes first"};
  return {std::string::npos, ""};
}

}  // namespace

std::optional<CsvGuess> GuessCsv(absl::string_view text) {
  std::vector<absl::string_view> lines;
  for (const absl::string_view line : absl::StrSplit(text, absl::ByAnyChar("\r\n"))) {
    if (!absl::StripAsciiWhitespace(line).empty()) lines.push_back(line);
  }
  if (lines.size() < 2) return std::nullopt;
  CsvGuess guess;
  guess.separator = FindSeparator(lines);
  if (guess.separator == 0) return std::nullopt;
  const Record first = SplitLine(lines[0], guess.separator);
  guess.header = !HasNumber(first);
  std::vector<Column> columns(first.size());
  absl::flat_hash_set<std::string> names;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string name = guess.header ? first[i] : absl::StrCat(i + 1);
    // A name that comes twice says nothing about which is meant.
    if (names.insert(name).second) columns[i].name = name;
  }
  for (size_t line = guess.header ? 1 : 0; line < lines.size(); ++line) {
    const Record record = SplitLine(lines[line], guess.separator);
    if (record.size() != columns.size()) continue;
    ++guess.records;
    for (size_t i = 0; i < columns.size(); ++i) columns[i].Add(record[i]);
  }
  const auto [label, reason] = FindLabel(columns);
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i];
    if (i == label) {
      guess.label = column.name;
      guess.label_reason = reason;
      guess.classes = column.Classes();
    } else if (NumbersOrNamesRecords(column, guess.records)) {
      guess.left_out.push_back(guess.header ? first[i] : column.name);
    } else {
      (column.numeric ? guess.numeric : guess.categorical).push_back(column.name);
    }
  }
  return guess;
}

}  // namespace muster
