#include "worker/data/csv/csv_columns.h"

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace muster {

std::vector<std::string> CsvColumns::numbers() const {
  std::vector<std::string> names = numeric;
  if (label_kind == LabelKind::kNumber) names.push_back(label);
  return names;
}

absl::StatusOr<CsvColumns> ColumnsOf(const v1::CsvData& csv, LabelKind label_kind) {
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
  columns.label_kind = label_kind;
  return columns;
}

}  // namespace muster
