#ifndef MUSTER_COMMON_PARQUET_PARQUET_ROWS_H_
#define MUSTER_COMMON_PARQUET_PARQUET_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parquet/column_reader.h"
#include "common/parquet/parquet_file.h"

namespace muster {

// Values of one row may have so much text; a value that is no text counts for 32 bytes.
inline constexpr size_t kMostParquetRowBytes = size_t{32} << 20;

// Reads rows in order, some fields of each. For each column of these, a page and a dictionary are
// in memory. Errors name file and column, and where one row is wrong its number. Not thread-safe.
class ParquetRows {
 public:
  // `fields` are places in the schema; `file` outlives this object. InvalidArgument: a field has
  // what is not read.
  static absl::StatusOr<std::unique_ptr<ParquetRows>> Open(const ParquetFile& file,
                                                           std::vector<size_t> fields);

  // Leaves out the next rows. REQUIRES: no row was begun, or all fields of the last one were taken.
  absl::Status Skip(uint64_t rows);

  // Begins the next row, of which then each field is taken once, in any order. Returns false at
  // the end. Errors are ColumnReader's.
  absl::StatusOr<bool> Next();

  // Returns the number of the row, counted from 1.
  int64_t row() const { return row_; }

  // Takes fields[field] as JSON: a list, an object without the fields that are null, a text, a
  // number, a boolean or null. InvalidArgument: a column is damaged, a text is not UTF-8, or the
  // row has more than kMostParquetRowBytes.
  absl::Status TakeJson(size_t field, nlohmann::ordered_json& value);

  // Takes fields[field] as a table in text has it: the shortest digits that give the number, true
  // and false, nothing for null. Errors as TakeJson. REQUIRES: the field is a column.
  absl::Status TakeText(size_t field, std::string& text);

 private:
  ParquetRows(const ParquetFile& file, std::vector<size_t> fields);

  // Goes on to the next row group with rows. Returns false at the end.
  absl::StatusOr<bool> NextGroup();
  absl::Status SkipRow();

  // Looks at the next entry of a column, which must have this repetition level, and at least this
  // definition level.
  absl::Status Expect(ColumnReader& column, int repetition, int least_definition) const;
  absl::Status Take(ColumnReader& column, ParquetValue& value);
  absl::Status TakeNode(const ParquetNode& node, int repetition, int least_definition,
                        nlohmann::ordered_json& json);
  // Takes the entries that stand for null or for an empty list.
  absl::Status TakeNothing(const ParquetNode& node, int repetition);
  absl::Status TakeList(const ParquetNode& node, int repetition, nlohmann::ordered_json& json);
  absl::Status RowError(const ColumnReader& column, const char* what) const;

  const ParquetFile& file_;
  const std::vector<size_t> fields_;
  // They are by column of the file; null: not read.
  std::vector<std::unique_ptr<ColumnReader>> columns_;
  size_t next_group_ = 0;
  int64_t left_in_group_ = 0;
  int64_t row_ = 0;
  size_t row_bytes_ = 0;
};

// Returns InvalidArgument if a node, or one below it, has what is not read.
absl::Status CheckReadsParquet(const ParquetFile& file, const ParquetNode& node);

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_PARQUET_ROWS_H_
