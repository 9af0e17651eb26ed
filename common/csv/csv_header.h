#ifndef MUSTER_COMMON_CSV_CSV_HEADER_H_
#define MUSTER_COMMON_CSV_CSV_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/csv/csv_columns.h"

namespace muster {

// The positions of a job's columns in the records of CSV files. Immutable, so thread-safe.
class CsvHeader {
 public:
  // Finds the columns in the first record of the first file, with which `text` begins. `columns`
  // outlives the header. InvalidArgument: a column that is read is missing (names a separator that
  // would give it, or else the nearest column), or there twice; the header is not UTF-8; or as
  // CheckColumns.
  static absl::StatusOr<CsvHeader> Create(const std::string& path, const CsvColumns& columns,
                                          const std::vector<std::string>& first_record,
                                          absl::string_view text);

  // Checks that another file has the same header. InvalidArgument names file, line and column.
  absl::Status CheckSame(const std::string& path, int64_t line,
                         const std::vector<std::string>& record) const;

  // Returns the end of a sentence that names a better separator for a record of only one field,
  // with which `text` begins; empty if there is none.
  std::string SeparatorHint(absl::string_view text) const;

  // Returns the names of all columns of a record, without spaces around them; their numbers if
  // there is no header.
  const std::vector<std::string>& names() const { return names_; }
  // Return where in a record the columns are, in the order in which the job names them. REQUIRES,
  // of the label: it is read.
  size_t label() const { return label_; }
  const std::vector<size_t>& numeric() const { return numeric_; }
  const std::vector<size_t>& categorical() const { return categorical_; }

 private:
  explicit CsvHeader(const CsvColumns& columns) : columns_(&columns) {}

  absl::StatusOr<size_t> Find(const std::string& path, const std::string& name,
                              absl::string_view text) const;

  const CsvColumns* columns_;
  std::vector<std::string> names_;
  size_t label_ = 0;
  std::vector<size_t> numeric_;
  std::vector<size_t> categorical_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CSV_CSV_HEADER_H_
