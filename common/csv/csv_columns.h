#ifndef MUSTER_COMMON_CSV_CSV_COLUMNS_H_
#define MUSTER_COMMON_CSV_CSV_COLUMNS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/label_kind.h"

namespace muster {

namespace v1 {
class CsvData;
}  // namespace v1

// The roles of a CSV file's columns.
struct CsvColumns {
  enum class Header {
    // Columns are named by the first line.
    kFirstLine,
    // The first line is an example; columns are named by number: "1", "2", and so on.
    kNone,
  };
  enum class Labels {
    // Every example has a label.
    kRead,
    // The label is to be predicted: its column may be absent, and is not read.
    kPredicted,
  };

  // Column of the class (worker/data/csv/csv_labels.h says which labels are allowed), or of the
  // number to predict.
  std::string label;
  std::vector<std::string> numeric;
  std::vector<std::string> categorical;
  char separator = ',';
  Header header = Header::kFirstLine;
  LabelKind label_kind = LabelKind::kClass;
  Labels labels = Labels::kRead;

  bool reads_labels() const { return labels == Labels::kRead; }
  // Returns the columns of numbers: the numeric ones and, last, a label that is a number, whether
  // or not it is read.
  std::vector<std::string> numbers() const;
};

// Returns the columns that a job names; labels are classes, and are read. InvalidArgument: the
// separator has several bytes.
absl::StatusOr<CsvColumns> CsvColumnsOf(const v1::CsvData& csv);

// Checks what can be checked without a file. InvalidArgument: a column that is read is used twice;
// there is no label or no column to learn from; or the separator is not allowed.
absl::Status CheckColumns(const CsvColumns& columns);

}  // namespace muster

#endif  // MUSTER_COMMON_CSV_CSV_COLUMNS_H_
