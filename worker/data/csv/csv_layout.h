#ifndef MUSTER_WORKER_DATA_CSV_CSV_LAYOUT_H_
#define MUSTER_WORKER_DATA_CSV_CSV_LAYOUT_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/csv/csv_columns.h"
#include "common/csv/csv_header.h"

namespace muster {

// Stands for a missing number.
inline constexpr double kMissingNumber = std::numeric_limits<double>::quiet_NaN();

// Reads a job's columns out of the records of CSV files. Immutable, so thread-safe.
class CsvLayout {
 public:
  // `columns`, of which the header is, outlive the layout.
  CsvLayout(const CsvColumns& columns, CsvHeader header)
      : columns_(&columns), header_(std::move(header)) {}

  // Says where the columns are.
  const CsvHeader& header() const { return header_; }

  // Appends a record's numbers and its categories' keys, both in the order asked for; a label that
  // is a number, and is read, is the last of the numbers and never missing. Spaces around a value
  // do not count, and common/text/missing_value.h says what is missing. `text` begins with the
  // record. InvalidArgument, naming file, line and column: the record does not have as many fields
  // as the first one, or a number is malformed.
  absl::Status Append(const std::string& path, int64_t line, const std::vector<std::string>& record,
                      absl::string_view text, std::vector<double>& numbers,
                      std::vector<uint64_t>& keys) const;

  // Returns the label without spaces around it. REQUIRES: labels are read, and Append accepted the
  // record.
  absl::string_view Label(const std::vector<std::string>& record) const;

 private:
  const CsvColumns* columns_;
  CsvHeader header_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_LAYOUT_H_
