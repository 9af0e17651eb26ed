#ifndef MUSTER_COMMON_PARQUET_PARQUET_FILE_H_
#define MUSTER_COMMON_PARQUET_PARQUET_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/parquet/parquet_footer.h"

namespace muster {

// Returns whether the bytes begin like a Parquet file.
bool IsParquet(absl::string_view bytes);
// Returns whether the file at a path does. One that cannot be read does not.
bool IsParquetAt(const std::string& path);

// An open Parquet file: its schema, and where its pages lie. Thread-safe.
class ParquetFile {
 public:
  // InvalidArgument: the file is no Parquet file, was cut off, is damaged or is encrypted. Other
  // errors are OpenRegularFile's (common/files/open_regular_file.h). Every message names the path.
  static absl::StatusOr<std::unique_ptr<const ParquetFile>> Open(const std::string& path);
  ~ParquetFile();

  ParquetFile(const ParquetFile&) = delete;
  ParquetFile& operator=(const ParquetFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  int64_t rows() const { return footer_.rows; }
  const ParquetSchema& schema() const { return footer_.schema; }
  const std::vector<ParquetRowGroup>& row_groups() const { return footer_.row_groups; }

  // Returns the number of a field of the schema. Nothing: there is none of this name.
  std::optional<size_t> Find(absl::string_view name) const;

  // Appends bytes [offset, offset + count) to `bytes`. DataLoss: the file has become shorter.
  // Other errors: it could not be read. Both name the path.
  absl::Status Read(uint64_t offset, size_t count, std::string& bytes) const;

 private:
  ParquetFile(std::string path, int descriptor, uint64_t size);

  absl::Status ReadFooter();

  const std::string path_;
  const int descriptor_;
  const uint64_t size_;
  ParquetFooter footer_;  // Const after construction.
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_PARQUET_FILE_H_
