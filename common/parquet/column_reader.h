#ifndef MUSTER_COMMON_PARQUET_COLUMN_READER_H_
#define MUSTER_COMMON_PARQUET_COLUMN_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/parquet/bit_packing.h"
#include "common/parquet/page_reader.h"
#include "common/parquet/value_decoder.h"

namespace muster {

// Reads the entries of a column, row group by row group. One page, and the row group's dictionary,
// are in memory. Errors name file and column. Not thread-safe.
class ColumnReader {
 public:
  // `file` outlives this object.
  ColumnReader(const ParquetFile& file, size_t column);

  // Begins a row group. InvalidArgument: the column is encrypted, in another file or compressed in
  // a way that is not read there.
  absl::Status Begin(const ParquetRowGroup& group);

  // Looks at the next entry of the row group. Returns false at its end. InvalidArgument: the column
  // is damaged, or has an encoding that is not read.
  absl::StatusOr<bool> Look();

  // Return the levels of the entry. REQUIRES: Look returned true.
  int repetition() const { return repetition_; }
  int definition() const { return definition_; }
  bool has_value() const { return definition_ == column_.definition; }

  // Takes the entry, and its value if it has one, which is valid until the next call of Look.
  // InvalidArgument as Look. REQUIRES: Look returned true.
  absl::Status Take(ParquetValue& value);

  const std::string& name() const { return column_.name; }
  // Returns what is wrong with the column, for an error.
  absl::Status Damaged(absl::string_view what) const;

 private:
  // Takes the next page with entries. Returns false at the end.
  absl::StatusOr<bool> NextPage();

  const ParquetFile& file_;
  const size_t number_;
  const ParquetColumn& column_;
  std::unique_ptr<PageReader> pages_;
  ValueDecoder values_;
  // Entries left in the row group, and in the page.
  uint64_t left_ = 0;
  uint64_t left_in_page_ = 0;
  RunDecoder repetitions_;
  RunDecoder definitions_;
  bool looked_ = false;
  int repetition_ = 0;
  int definition_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_COLUMN_READER_H_
