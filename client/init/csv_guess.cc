#include "client/init/csv_guess.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/csv/csv_parser.h"
#include "common/text/did_you_mean.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

using Record = std::vector<std::string>;

// Records that tell whether a text is a table.
constexpr size_t kRecordsLookedAt = 200;
// Categories of which there are more, each in fewer records, seldom teach anything.
constexpr size_t kManyCategories = 100;
constexpr size_t kFewRecordsOfEach = 5;

// A record, and the line on which it begins.
struct Line {
  size_t number = 0;
  Record fields;
};

// Returns the first `most` records that are not blank, without spaces around their fields. A line
// at which training would stop has no fields, and the text goes on behind it.
std::vector<Line> ReadRecords(absl::string_view text, char separator, size_t most) {
  std::vector<Line> records;
  const std::string path;
  size_t before = 0;
  while (!text.empty()) {
    CsvParser parser(text, path, separator);
    Record fields;
    absl::StatusOr<bool> next = parser.Next(fields);
    for (; next.ok() && *next; next = parser.Next(fields)) {
      for (std::string& field : fields) absl::StripAsciiWhitespace(&field);
      if (fields.size() == 1 && fields[0].empty()) continue;
      records.push_back({before + static_cast<size_t>(parser.line()), fields});
      if (records.size() == most) return records;
    }
    if (next.ok()) break;
    records.push_back({before + static_cast<size_t>(parser.line()), {}});
    if (records.size() == most) return records;
    before += static_cast<size_t>(parser.line());
    const size_t end = text.find('\n', parser.offset());
    text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
  }
  return records;
}

// Returns the separator with the most fields that most records agree on; 0: none.
char FindSeparator(absl::string_view text) {
  char best = 0;
  size_t most = 1;
  for (const char separator : {',', ';', '\t', '|'}) {
    const std::vector<Line> records = ReadRecords(text, separator, kRecordsLookedAt);
    const size_t fields = records.empty() ? 0 : records[0].fields.size();
    const size_t agree =
        std::count_if(records.begin(), records.end(),
                      [fields](const Line& record) { return record.fields.size() == fields; });
    if (records.size() > 1 && fields > most && agree * 10 >= records.size() * 9) {
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
std::vector<std::string> NameColumns(const Record& header, std::vector<CsvColumn>& columns) {
  absl::flat_hash_map<std::string, size_t> times;
  for (const std::string& name : header) ++times[name];
  std::vector<std::string> refused;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = header[i];
    if (times[name] == 1 && !name.empty() && IsUtf8(name)) {
      columns[i].name = name;
    } else if (times[name] > 0) {
      refused.push_back(ToUtf8(name));
      times[name] = 0;
    }
  }
  return refused;
}

// A column to predict, or why there is none.
struct Label {
  const CsvColumn* column = nullptr;
  std::string reason;
  std::string refused;
};

// Clauses that say why a column cannot be predicted; empty: it can.
std::string WhyNot(const CsvColumn& column, size_t records) {
  const size_t missing = column.missing_labels();
  if (missing > 0) {
    return absl::StrCat(missing, " of the ", records, " records looked at ",
                        missing == 1 ? "has" : "have", " no value in it, line ",
                        column.first_missing_label(), missing == 1 ? "" : " the first");
  }
  return column.CanBeClasses() || column.CanBeNumbers() ? "" : column.WhyNoTarget();
}

Label AskedLabel(const std::vector<CsvColumn>& columns, size_t records, const std::string& asked) {
  std::vector<std::string> names;
  for (const CsvColumn& column : columns) {
    if (column.name.empty()) continue;
    names.push_back(column.name);
    if (column.name != asked) continue;
    const std::string why_not = WhyNot(column, records);
    if (why_not.empty()) return {&column, "as --predict says", ""};
    return {nullptr, "",
            absl::StrCat("--predict names column \"", asked, "\", but ", why_not,
                         column.missing_labels() > 0 ? "; drop these records" : "")};
  }
  return {nullptr, "",
          absl::StrCat("--predict is \"", asked, "\", but no column has this name",
                       DidYouMean(asked, names))};
}

// Finds the column to predict by its name, or else by its place.
Label FindLabel(const std::vector<CsvColumn>& columns, size_t records, bool header) {
  std::string passed_over;
  for (const char* usual : {"label", "target", "class", "y", "outcome", "species", "click",
                            "clicked", "survived", "churn", "diagnosis", "quality"}) {
    for (const CsvColumn& column : columns) {
      if (!absl::EqualsIgnoreCase(column.name, usual)) continue;
      const std::string why_not = WhyNot(column, records);
      if (why_not.empty()) return {&column, "by its name", ""};
      if (column.missing_labels() > 0) {
        return {nullptr, "",
                absl::StrCat("column \"", column.name, "\" looks like the one to predict, but ",
                             why_not,
                             "; drop these records, or name another column: --predict COLUMN")};
      }
      if (passed_over.empty()) {
        passed_over = absl::StrCat(" (not \"", column.name, "\", as ", why_not, ")");
      }
    }
  }
  const auto usable = [records](const CsvColumn& column) {
    return !column.name.empty() && WhyNot(column, records).empty() &&
           column.Use() != ColumnUse::kTellsRecordsApart;
  };
  const auto classes = [&usable](const CsvColumn& column) {
    return usable(column) && column.LooksLikeClasses();
  };
  const CsvColumn& first = columns.front();
  const CsvColumn& last = columns.back();
  if (!last.name.empty() && last.missing_labels() > 0 && passed_over.empty()) {
    passed_over = absl::StrCat(" (not \"", last.name, "\", as ", WhyNot(last, records), ")");
  }
  const Label by_last = {&last, absl::StrCat("because it comes last", passed_over), ""};
  const Label by_first = {&first, absl::StrCat("because it comes first", passed_over), ""};
  if (classes(last)) return by_last;
  // Tables without a header often begin with the class.
  if (!header && classes(first)) return by_first;
  if (usable(last)) return by_last;
  return usable(first) ? by_first : Label();
}

// Notes what a column that is not the target is good for.
void AddColumn(const CsvColumn& column, CsvGuess& guess) {
  const ColumnUse use = column.Use();
  if (use == ColumnUse::kNumeric) {
    guess.numeric.push_back(column.name);
    return;
  }
  if (use != ColumnUse::kCategorical) {
    guess.left_out[use].push_back(column.name);
    return;
  }
  guess.categorical.push_back(column.name);
  const size_t different = column.DifferentValues();
  if (column.first_text_among_numbers() > 0) {
    guess.texts_among_numbers[column.name] = column.first_text_among_numbers();
  } else if (different > kManyCategories && different * kFewRecordsOfEach > guess.records) {
    guess.rare_categories[column.name] = different;
  }
}

}  // namespace

std::optional<CsvGuess> GuessCsv(absl::string_view text, const std::string& label) {
  CsvGuess guess;
  guess.separator = FindSeparator(text);
  if (guess.separator == 0) return std::nullopt;
  const std::vector<Line> lines =
      ReadRecords(text, guess.separator, std::numeric_limits<size_t>::max());
  const Record& first = lines[0].fields;
  guess.header = !HasNumber(first);
  std::vector<CsvColumn> columns(first.size());
  if (guess.header) {
    guess.not_nameable = NameColumns(first, columns);
  } else {
    for (size_t i = 0; i < columns.size(); ++i) columns[i].name = absl::StrCat(i + 1);
  }
  for (size_t i = guess.header ? 1 : 0; i < lines.size(); ++i) {
    const Record& record = lines[i].fields;
    if (record.size() != columns.size()) continue;
    ++guess.records;
    for (size_t j = 0; j < columns.size(); ++j) columns[j].Add(record[j], lines[i].number);
  }
  Label found = label.empty() ? FindLabel(columns, guess.records, guess.header)
                              : AskedLabel(columns, guess.records, label);
  guess.label_refused = std::move(found.refused);
  if (found.column != nullptr) {
    guess.label = found.column->name;
    guess.label_reason = std::move(found.reason);
    guess.label_can_be_number = found.column->CanBeNumbers();
    guess.label_is_number = guess.label_can_be_number && !found.column->LooksLikeClasses();
    if (found.column->CanBeClasses()) guess.classes = found.column->Classes();
    guess.different_labels = found.column->DifferentValues();
    guess.fewest_records = found.column->FewestRecords();
  }
  for (const CsvColumn& column : columns) {
    if (&column != found.column && !column.name.empty()) AddColumn(column, guess);
  }
  return guess;
}

}  // namespace muster
