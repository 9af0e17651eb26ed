#ifndef MUSTER_COMMON_PARQUET_PAGE_READER_H_
#define MUSTER_COMMON_PARQUET_PAGE_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/parquet/page_unpacker.h"
#include "common/parquet/parquet_file.h"

namespace muster {

// A page of a column.
struct ParquetPage {
  enum class Kind { kData, kDictionary };
  Kind kind = Kind::kData;
  // Entries, those without a value among them; of a dictionary the values.
  uint64_t count = 0;
  // The format's number of how values are encoded.
  int encoding = 0;
  // Levels as RunDecoder takes them; empty where all are 0.
  absl::string_view repetition_levels;
  absl::string_view definition_levels;
  absl::string_view values;
};

// Reads the pages of one column in one row group, one at a time. Not thread-safe.
class PageReader {
 public:
  // Pages that have, or claim, more bytes are refused.
  static constexpr uint64_t kMostPageBytes = uint64_t{256} << 20;

  // `file` outlives this object. REQUIRES: the chunk is in the file, and its compression is read.
  PageReader(const ParquetFile& file, size_t column, const ParquetChunk& chunk);

  // Reads the next page, whose bytes are valid until the next call. Returns false at the end of the
  // chunk. InvalidArgument says what is wrong, without file and column: the page is damaged.
  // Unimplemented says what it has that is not read. Errors of ParquetFile::Read name the file.
  absl::StatusOr<bool> Next(ParquetPage& page);

 private:
  struct Header;

  // Makes the chunk's next `count` bytes lie in the window.
  absl::Status Fill(size_t count);
  absl::Status ReadHeader(Header& header);
  absl::Status CutFirstVersion(absl::string_view bytes, ParquetPage& page) const;
  absl::Status CutSecondVersion(const Header& header, absl::string_view bytes, ParquetPage& page);

  const ParquetFile& file_;
  const ParquetColumn& column_;
  PageUnpacker unpacker_;
  // The next byte that is not in the window, and the end of the chunk.
  uint64_t next_;
  const uint64_t end_;
  std::string window_;
  // The part of the window that was read already.
  size_t taken_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_PAGE_READER_H_
