#include "worker/data/csv/csv_layout.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/text/did_you_mean.h"
#include "common/text/missing_value.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"
#include "worker/data/csv/csv_parser.h"
#include "worker/data/parsing/data_error.h"
#include "worker/data/parsing/number.h"
#include "worker/data/parsing/target.h"

namespace muster {
namespace {

constexpr absl::string_view kUsualSeparators = ",;\t|";

bool ReadsLabels(const CsvColumns& columns) { return columns.labels == CsvColumns::Labels::kRead; }

absl::Status CheckColumns(const CsvColumns& columns) {
  const char separator = columns.separator;
  if (separator == '"' || separator == '\n' || separator == '\r' || separator == '\0' ||
      absl::ascii_isalnum(separator) || static_cast<unsigned char>(separator) >= 0x80) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.csv.separator is ", Quote(absl::string_view(&separator, 1)),
                     ", which stands in values or ends lines; take what the file has between its "
                     "fields, such as \";\", \"|\" or a tab"));
  }
  if (columns.label.empty() && ReadsLabels(columns)) {
    return absl::InvalidArgumentError("data.csv.label is empty; name the column with the labels");
  }
  if (columns.numeric.empty() && columns.categorical.empty()) {
    return absl::InvalidArgumentError(
        "data.csv.numeric and data.csv.categorical are both empty; name at least one column to "
        "learn from");
  }
  absl::flat_hash_set<absl::string_view> used;
  if (ReadsLabels(columns)) used.insert(absl::string_view(columns.label));
  for (const auto* names : {&columns.numeric, &columns.categorical}) {
    for (const std::string& name : *names) {
      if (!used.insert(absl::string_view(name)).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("data.csv names column ", Quote(name),
                         " more than once; each may be label, numeric or categorical, and once"));
      }
    }
  }
  return absl::OkStatus();
}

// Returns the columns' names from the first record.
std::vector<std::string> HeaderOf(const CsvColumns& columns,
                                  const std::vector<std::string>& record) {
  std::vector<std::string> header = record;
  for (size_t i = 0; i < header.size(); ++i) {
    if (columns.header == CsvColumns::Header::kNone) {
      header[i] = absl::StrCat(i + 1);
    } else {
      absl::StripAsciiWhitespace(&header[i]);
    }
  }
  return header;
}

bool HasAllColumns(const std::vector<std::string>& header, const CsvColumns& columns) {
  const absl::flat_hash_set<absl::string_view> names(header.begin(), header.end());
  const auto is_there = [&names](const std::string& name) {
    return names.contains(absl::string_view(name));
  };
  return (!ReadsLabels(columns) || is_there(columns.label)) &&
         std::all_of(columns.numeric.begin(), columns.numeric.end(), is_there) &&
         std::all_of(columns.categorical.begin(), columns.categorical.end(), is_there);
}

// Returns the end of a sentence that names a better separator for a record with only one field or
// without the columns asked for; empty if there is none.
std::string SeparatorHint(const CsvColumns& columns, absl::string_view text, size_t fields) {
  const std::string no_path;
  char best = '\0';
  size_t best_fields = fields == 1 ? 1 : std::string::npos;
  for (const char separator : kUsualSeparators) {
    if (separator == columns.separator) continue;
    CsvParser parser(text, no_path, separator);
    std::vector<std::string> record;
    const absl::StatusOr<bool> more = parser.Next(record);
    if (!more.ok() || !*more || record.size() == 1) continue;
    if (HasAllColumns(HeaderOf(columns, record), columns)) {
      best = separator;
      break;
    }
    if (record.size() > best_fields) {
      best = separator;
      best_fields = record.size();
    }
  }
  if (best == '\0') return "";
  const std::string name = best == '\t' ? "\\t" : std::string(1, best);
  return absl::StrCat("; its separator looks like '", name, "', not '",
                      columns.separator == '\t' ? "\\t" : std::string(1, columns.separator),
                      "': set data.csv.separator to \"", name, "\"");
}

// Returns which column of the header the name may mean, for the end of an error; empty if none is
// near. Columns of a header are the one text of a file that an error has: a job names them.
std::string NearestColumn(const std::string& name, const std::vector<std::string>& header) {
  // Looking through a header of millions of columns would take long.
  constexpr size_t kMostColumns = 10'000;
  std::vector<std::string> columns(header.begin(),
                                   header.begin() + std::min(header.size(), kMostColumns));
  return PrintableLine(DidYouMean(name, columns));
}

// Returns a category's key. Each field has its own key space, so equal texts of two fields differ.
uint64_t CategoryKey(absl::string_view text, size_t field) {
  return Fingerprint(text, MixBits(field + 1));
}

}  // namespace

absl::StatusOr<CsvLayout> CsvLayout::Create(const std::string& path, const CsvColumns& columns,
                                            const std::vector<std::string>& first_record,
                                            absl::string_view text) {
  MUSTER_RETURN_IF_ERROR(CheckColumns(columns));
  CsvLayout layout(columns);
  layout.header_ = HeaderOf(columns, first_record);
  for (const std::string& name : layout.header_) {
    // A job's specification is UTF-8, so it cannot name other columns.
    if (!IsUtf8(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("CSV file '", path,
                       "': its header is not UTF-8, so no job can name its columns; convert "
                       "it: iconv -f LATIN1 -t UTF-8 FILE > TEXT"));
    }
  }
  if (ReadsLabels(columns)) {
    MUSTER_ASSIGN_OR_RETURN(layout.label_, layout.Find(path, columns.label, text));
  }
  for (const std::string& name : columns.numeric) {
    MUSTER_ASSIGN_OR_RETURN(layout.numeric_.emplace_back(), layout.Find(path, name, text));
  }
  for (const std::string& name : columns.categorical) {
    MUSTER_ASSIGN_OR_RETURN(layout.categorical_.emplace_back(), layout.Find(path, name, text));
  }
  return layout;
}

absl::StatusOr<size_t> CsvLayout::Find(const std::string& path, const std::string& name,
                                       absl::string_view text) const {
  const auto found = std::find(header_.begin(), header_.end(), name);
  if (found == header_.end()) {
    const std::string hint = SeparatorHint(*columns_, text, header_.size());
    if (columns_->header == CsvColumns::Header::kNone) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CSV file '", path, "' has no column ", Quote(name),
          ": data.csv.no_header is set, so columns go by number, 1 to ", header_.size(),
          hint.empty() ? "; name the column's number, or leave no_header out" : hint));
    }
    const std::string near = NearestColumn(name, header_);
    absl::string_view remedy =
        "; correct the name, or set data.csv.no_header if its first line is an example already";
    if (!near.empty()) remedy = near;
    if (!hint.empty()) remedy = hint;
    return absl::InvalidArgumentError(absl::StrCat("CSV file '", path, "' has no column ",
                                                   Quote(name), " among the ", header_.size(),
                                                   " of its header", remedy));
  }
  if (std::find(found + 1, header_.end(), name) != header_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("CSV file '", path, "' has column ", Quote(name),
                                                   " more than once; rename one"));
  }
  return found - header_.begin();
}

absl::Status CsvLayout::CheckHeader(const std::string& path, int64_t line,
                                    const std::vector<std::string>& record) const {
  const std::vector<std::string> header = HeaderOf(*columns_, record);
  constexpr absl::string_view kRemedy = "; all files that data.csv.path names need the same header";
  if (header.size() != header_.size()) {
    return LineError(path, line,
                     absl::StrCat("the header has ", header.size(),
                                  " columns, that of the first "
                                  "file ",
                                  header_.size(), kRemedy));
  }
  const auto differs = std::mismatch(header.begin(), header.end(), header_.begin()).first;
  if (differs == header.end()) return absl::OkStatus();
  return LineError(path, line,
                   absl::StrCat("column ", differs - header.begin() + 1,
                                " of the header has another name than in the first file", kRemedy));
}

absl::Status CsvLayout::Append(const std::string& path, int64_t line,
                               const std::vector<std::string>& record, absl::string_view text,
                               std::vector<double>& numbers, std::vector<uint64_t>& keys) const {
  if (record.size() != header_.size()) {
    const std::string hint =
        record.size() == 1 ? SeparatorHint(*columns_, text, record.size()) : std::string();
    return LineError(
        path, line,
        absl::StrCat(
            "has ", record.size(), record.size() == 1 ? " field" : " fields", ", the ",
            columns_->header == CsvColumns::Header::kNone ? "first line" : "header", " has ",
            header_.size(),
            hint.empty() ? "; add what is missing or quote fields that hold separators" : hint));
  }
  for (size_t i = 0; i < numeric_.size(); ++i) {
    const absl::string_view value = absl::StripAsciiWhitespace(record[numeric_[i]]);
    if (IsMissingValue(value)) {
      numbers.push_back(kMissingNumber);
      continue;
    }
    const absl::StatusOr<double> number = ParseNumber(value);
    if (!number.ok()) {
      return LineError(path, line,
                       absl::StrCat("the value in numeric column ", Quote(columns_->numeric[i]),
                                    " (field ", numeric_[i] + 1, ") ", number.status().message(),
                                    "; leave a missing value empty, or write NA"));
    }
    numbers.push_back(*number);
  }
  if (columns_->label_kind == LabelKind::kNumber && ReadsLabels(*columns_)) {
    const std::string what =
        absl::StrCat("the label in column ", Quote(columns_->label), " (field ", label_ + 1, ")");
    MUSTER_ASSIGN_OR_RETURN(const double target, ParseTarget(Label(record), what, path, line));
    numbers.push_back(target);
  }
  for (size_t field = 0; field < categorical_.size(); ++field) {
    const absl::string_view value = absl::StripAsciiWhitespace(record[categorical_[field]]);
    // However a file writes it, a missing value is one category.
    keys.push_back(CategoryKey(IsMissingValue(value) ? absl::string_view() : value, field));
  }
  return absl::OkStatus();
}

absl::string_view CsvLayout::Label(const std::vector<std::string>& record) const {
  return absl::StripAsciiWhitespace(record[label_]);
}

}  // namespace muster
