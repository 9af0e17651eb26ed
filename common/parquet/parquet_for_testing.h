#ifndef MUSTER_COMMON_PARQUET_PARQUET_FOR_TESTING_H_
#define MUSTER_COMMON_PARQUET_PARQUET_FOR_TESTING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/parquet/parquet_schema.h"

namespace muster {

// The pages of a column, as they lie in the file: one plain page of version 1, which is not
// compressed. Everything may be wrong.
struct ParquetPagesForTesting {
  // Levels of each entry; empty: the column has none of this kind.
  std::vector<int> repetitions;
  std::vector<int> definitions;
  // The page says this of itself, if it is not the number of levels.
  std::optional<int64_t> count;
  int encoding = 0;
  int codec = 0;
  // Plain values.
  std::string values;
  // Stands in place of the page's real size, unpacked.
  std::optional<int64_t> unpacked_bytes;
};

// Returns bytes as plain values have them: with their length before them.
std::string PlainText(const std::string& text);

// Returns a file of one row group. The schema's first element is its root.
std::string ParquetOf(const std::vector<SchemaElement>& schema,
                      const std::vector<ParquetPagesForTesting>& columns, int64_t rows);

// Returns a file of columns of text, each of which has these values or null.
struct TextColumnForTesting {
  std::string name;
  std::vector<std::optional<std::string>> values;
};
std::string ParquetOfTexts(const std::vector<TextColumnForTesting>& columns);

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_PARQUET_FOR_TESTING_H_
