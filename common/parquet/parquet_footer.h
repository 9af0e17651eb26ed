#ifndef MUSTER_COMMON_PARQUET_PARQUET_FOOTER_H_
#define MUSTER_COMMON_PARQUET_PARQUET_FOOTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/parquet/parquet_schema.h"

namespace muster {

// The pages of a column in a row group.
struct ParquetChunk {
  enum class Place { kHere, kOtherFile, kEncrypted };
  Place place = Place::kHere;
  int type = -1;
  // The format's number of the compression.
  int codec = 0;
  int64_t values = 0;
  // Its bytes in the file.
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

struct ParquetRowGroup {
  int64_t rows = 0;
  // One for each column of the schema.
  std::vector<ParquetChunk> chunks;
};

struct ParquetFooter {
  ParquetSchema schema;
  std::vector<ParquetRowGroup> row_groups;
  int64_t rows = 0;
};

// Reads a file's metadata. `data_bytes` is how many bytes lie before them; all pages must be there.
// InvalidArgument says what is wrong, without the file: the metadata are damaged or contradict
// themselves.
absl::StatusOr<ParquetFooter> ReadParquetFooter(absl::string_view metadata, uint64_t data_bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_PARQUET_FOOTER_H_
