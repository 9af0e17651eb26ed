#include "client/init/csv_guess.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

using Record = std::vector<std::string>;

// Lines that tell whether a text is a table.
constexpr size_t kLinesLookedAt = 200;
// Labels with more values are rather numbers to predict.
constexpr size_t kMostClasses = 1000;
// Fewer records say nothing about whether a column's values are all different.
constexpr size_t kRecordsToTell = 20;
// Bytes; the reader refuses longer ones.
constexpr size_t kLongestTextLabel = 64;

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

// The number that a text is to the reader (worker/data/parsing/number.h).
std::optional<double> ReadNumber(const std::string& text) {
  double number = 0;
  if (text.find_first_of("xX") != std::string::npos || !absl::SimpleAtod(text, &number)) {
    return std::nullopt;
  }
  // Written so that NaN is none.
  if (!(std::abs(number) <= std::numeric_limits<float>::max())) return std::nullopt;
  return number;
}

// Returns true if the reader takes a text that is not a number for a class
// (worker/data/csv/csv_labels.h). The reader refuses texts that seem to mean a number, such as
// "nan" and "20-29".
bool IsTextLabel(const std::string& text) {
  if (text.size() > kLongestTextLabel || !IsUtf8(text)) return false;
  std::string lower = absl::AsciiStrToLower(text);
  if (lower[0] == '+' || lower[0] == '-') lower.erase(0, 1);
  if (lower == "nan" || lower == "inf" || lower == "infinity") return false;
  return lower.empty() || !absl::ascii_isdigit(lower[0]) ||
         lower.find_first_not_of("0123456789.e+-") != std::string::npos;
}

// Common properties of the values of one column.
struct Column {
  // Empty: a job cannot name the column.
  std::string name;
  bool numbers = false;
  bool texts = false;
  // False if a text is not a label.
  bool texts_are_labels = true;
  // False if a number is not whole.
  bool whole = true;
  bool only_signs = true;
  double least = 0;
  double most = 0;
  size_t empty = 0;
  // Records of each value.
  absl::flat_hash_map<std::string, size_t> values;

  void Add(const std::string& value) {
    if (value.empty()) {
      ++empty;
      return;
    }
    ++values[value];
    const std::optional<double> number = ReadNumber(value);
    if (!number.has_value()) {
      texts = true;
      texts_are_labels = texts_are_labels && IsTextLabel(value);
      return;
    }
    least = numbers ? std::min(least, *number) : *number;
    most = numbers ? std::max(most, *number) : *number;
    numbers = true;
    whole = whole && *number == std::floor(*number);
    only_signs = only_signs && std::abs(*number) == 1;
  }

  // Returns true if training accepts the values as labels: all texts, -1 and +1, or whole numbers
  // from 0.
  bool LooksLikeClasses() const {
    if (empty > 0 || values.size() < 2 || values.size() > kMostClasses) return false;
    if (texts) return !numbers && texts_are_labels;
    return whole && least < most && (least >= 0 || only_signs) && most <= kMostClasses;
  }

  // REQUIRES: LooksLikeClasses().
  uint32_t Classes() const {
    if (texts) return static_cast<uint32_t>(values.size());
    if (least < 0) return 2;
    // The reader renumbers labels that begin at 1, and no others.
    const auto largest = static_cast<uint32_t>(most);
    return std::max(2u, least == 1 ? largest : largest + 1);
  }

  // Records of the value that has the fewest.
  size_t FewestRecords() const {
    size_t fewest = std::numeric_limits<size_t>::max();
    for (const auto& [value, records] : values) fewest = std::min(fewest, records);
    return fewest;
  }
};

bool NumbersOrNamesRecords(const Column& column, size_t records) {
  if (column.name.empty() || column.values.size() <= 1) return true;
  const bool all_differ = records >= kRecordsToTell && column.values.size() > records * 9 / 10;
  if (column.texts) return all_differ;
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

bool HasNumber(const Record& record) {
  return std::any_of(record.begin(), record.end(),
                     [](const std::string& field) { return ReadNumber(field).has_value(); });
}

// Names the columns of a table; returns the names that no job can give, each once.
std::vector<std::string> NameColumns(const Record& header, std::vector<Column>& columns) {
  absl::flat_hash_map<std::string, size_t> times;
  for (const std::string& name : header) ++times[name];
  std::vector<std::string> refused;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = header[i];
    if (times[name] == 1 && IsUtf8(name)) {
      columns[i].name = name;
    } else if (!name.empty() && times[name] > 0) {
      refused.push_back(ToUtf8(name));
      times[name] = 0;
    }
  }
  return refused;
}

// Returns the column that seems to hold the labels, and why; npos if there is none.
std::pair<size_t, std::string> FindLabel(const std::vector<Column>& columns, size_t records) {
  for (const char* usual : {"label", "target", "class", "y", "outcome", "species", "click",
                            "clicked", "survived", "churn", "diagnosis", "quality"}) {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (absl::EqualsIgnoreCase(columns[i].name, usual) && columns[i].LooksLikeClasses()) {
        return {i, "by its name"};
      }
    }
  }
  const auto may_be_label = [&](const Column& column) {
    return column.LooksLikeClasses() && !NumbersOrNamesRecords(column, records);
  };
  if (may_be_label(columns.back())) return {columns.size() - 1, "because it comes last"};
  if (may_be_label(columns[0])) return {0, "because it comes first"};
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
  if (guess.header) {
    guess.not_nameable = NameColumns(first, columns);
  } else {
    for (size_t i = 0; i < columns.size(); ++i) columns[i].name = absl::StrCat(i + 1);
  }
  for (size_t line = guess.header ? 1 : 0; line < lines.size(); ++line) {
    const Record record = SplitLine(lines[line], guess.separator);
    if (record.size() != columns.size()) continue;
    ++guess.records;
    for (size_t i = 0; i < columns.size(); ++i) columns[i].Add(record[i]);
  }
  const auto [label, reason] = FindLabel(columns, guess.records);
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i];
    if (i == label) {
      guess.label = column.name;
      guess.label_reason = reason;
      guess.classes = column.Classes();
      guess.fewest_records = column.FewestRecords();
    } else if (column.name.empty() && !first[i].empty()) {
      // Among those that are not nameable.
    } else if (NumbersOrNamesRecords(column, guess.records)) {
      guess.left_out.push_back(column.name);
    } else {
      (column.texts ? guess.categorical : guess.numeric).push_back(column.name);
    }
  }
  return guess;
}

}  // namespace muster
