#ifndef MUSTER_COMMON_CSV_PARQUET_TABLE_H_
#define MUSTER_COMMON_CSV_PARQUET_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/csv/csv_columns.h"
#include "common/parquet/parquet_file.h"

namespace muster {

// Returns the names of all columns of a Parquet file, which stand for a CSV file's header.
std::vector<std::string> NamesOfColumns(const ParquetFile& file);

// Finds the columns that a job reads in a Parquet file, and returns their places in its schema, in
// order. InvalidArgument: a column is missing (names the nearest one) or there twice, has lists,
// structs or what is not read (common/parquet), or the job names columns by number.
absl::StatusOr<std::vector<size_t>> FindInParquet(const ParquetFile& file,
                                                  const CsvColumns& columns);

// Appends a field to a line of CSV, in quotes if it needs them.
void AppendCsvField(absl::string_view field, char separator, std::string& line);

// Returns a table's first rows as CSV with commas and a header, without columns that no job can
// read: at most about so many bytes, in whole lines. Errors are those of ParquetRows.
absl::StatusOr<std::string> HeadAsCsv(const ParquetFile& file, size_t most_bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_CSV_PARQUET_TABLE_H_
