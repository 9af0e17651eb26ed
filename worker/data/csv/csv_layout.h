#ifndef MUSTER_WORKER_DATA_CSV_CSV_LAYOUT_H_
#define MUSTER_WORKER_DATA_CSV_CSV_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/csv/csv_columns.h"

namespace muster {

// Stands for a missing number.
inline constexpr double kMissingNumber = std::numeric_limits<double>::quiet_NaN();

// The positions of a job's columns in the records of CSV files. Immutable, so thread-safe.
class CsvLayout {
 public:
  // Finds the columns in the first record of the first file, with which `text` begins. `columns`
  // outlives the layout. InvalidArgument: a column that is read is missing (names a separator that
  // would give it), there twice or used twice; the header is not UTF-8; there is no label or no
  // column to learn from; or the separator is not allowed.
  static absl::StatusOr<CsvLayout> Create(const std::string& path, const CsvColumns& columns,
                                          const std::vector<std::string>& first_record,
                                          absl::string_view text);

  // Checks that another file has the same header. InvalidArgument names file, line and column.
  absl::Status CheckHeader(const std::string& path, int64_t line,
                           const std::vector<std::string>& record) const;

  // Appends a record's numbers and its categories' keys, both in the order asked for; a label that
  // is a number, and is read, is the last of the numbers and never missing. Spaces around a value
  // do not count, and common/text/missing_value.h says what is missing. `text` begins with the
  // record. InvalidArgument, naming file, line and column: the record does not have as many fields
  // as the first one, or a number is malformed.
  absl::Status Append(const std::string& path, int64_t line, const std::vector<std::string>& record,
                      absl::string_view text, std::vector<double>& numbers,
                      std::vector<uint64_t>& keys) const;

  // Returns the names of all columns; their numbers if there is no header.
  const std::vector<std::string>& names() const { return header_; }

  // Returns the label without spaces around it. REQUIRES: labels are read, and Append accepted the
  // record.
  absl::string_view Label(const std::vector<std::string>& record) const;

 private:
  explicit CsvLayout(const CsvColumns& columns) : columns_(&columns) {}

  absl::StatusOr<size_t> Find(const std::string& path, const std::string& name,
                              absl::string_view text) const;

  const CsvColumns* columns_;
  // Names of the columns, without spaces around them; their numbers if there is no header.
  std::vector<std::string> header_;
  // Positions in a record.
  size_t label_ = 0;
  std::vector<size_t> numeric_;
  std::vector<size_t> categorical_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_LAYOUT_H_
