#include "common/csv/csv_columns.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/text/data_error.h"
#include "proto/job.pb.h"

namespace muster {

std::vector<std::string> CsvColumns::numbers() const {
  std::vector<std::string> names = numeric;
  if (label_kind == LabelKind::kNumber) names.push_back(label);
  return names;
}

absl::StatusOr<CsvColumns> CsvColumnsOf(const v1::CsvData& csv) {
  if (csv.separator().size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("data.csv.separator has ",
                                                   csv.separator().size(),
                                                   " bytes; it is one character, such as \";\""));
  }
  CsvColumns columns;
  columns.label = csv.label();
  columns.numeric.assign(csv.numeric().begin(), csv.numeric().end());
  columns.categorical.assign(csv.categorical().begin(), csv.categorical().end());
  if (!csv.separator().empty()) columns.separator = csv.separator().front();
  if (csv.no_header()) columns.header = CsvColumns::Header::kNone;
  return columns;
}

absl::Status CheckColumns(const CsvColumns& columns) {
  const char separator = columns.separator;
  if (separator == '"' || separator == '\n' || separator == '\r' || separator == '\0' ||
      absl::ascii_isalnum(separator) || static_cast<unsigned char>(separator) >= 0x80) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.csv.separator is ", Quote(absl::string_view(&separator, 1)),
                     ", which stands in values or ends lines; take what the file has between its "
                     "fields, such as \";\", \"|\" or a tab"));
  }
  if (columns.label.empty() && columns.reads_labels()) {
    return absl::InvalidArgumentError("data.csv.label is empty; name the column with the labels");
  }
  if (columns.numeric.empty() && columns.categorical.empty()) {
    return absl::InvalidArgumentError(
        "data.csv.numeric and data.csv.categorical are both empty; name at least one column to "
        "learn from");
  }
  absl::flat_hash_set<absl::string_view> used;
  if (columns.reads_labels()) used.insert(absl::string_view(columns.label));
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

}  // namespace muster
