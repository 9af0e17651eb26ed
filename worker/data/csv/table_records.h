#ifndef MUSTER_WORKER_DATA_CSV_TABLE_RECORDS_H_
#define MUSTER_WORKER_DATA_CSV_TABLE_RECORDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// The examples of one file of a table, in order. Not thread-safe.
class TableRecords {
 public:
  virtual ~TableRecords() = default;

  // Takes the next example. Returns false at the end. InvalidArgument names the file and what is
  // wrong with it.
  virtual absl::StatusOr<bool> Next() = 0;

  // Appends the example's numbers and keys (CsvLayout::Append).
  virtual absl::Status Append(std::vector<double>& numbers, std::vector<uint64_t>& keys) const = 0;

  // Returns the example's label. REQUIRES: Append accepted the record.
  virtual absl::string_view Label() const = 0;

  // Return the example as a line of CSV, and after the first Next that of the header; empty without
  // one. Neither has a line end.
  virtual absl::string_view text() const = 0;
  virtual absl::string_view header() const = 0;

  // Returns the number of the example's line or row, counted from 1.
  virtual int64_t line() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_TABLE_RECORDS_H_
