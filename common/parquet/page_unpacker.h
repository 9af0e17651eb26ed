#ifndef MUSTER_COMMON_PARQUET_PAGE_UNPACKER_H_
#define MUSTER_COMMON_PARQUET_PAGE_UNPACKER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/compression/unpack_stream.h"

namespace muster {

// Returns the name of a compression by the format's number; empty: there is none of this number.
absl::string_view NameOfParquetCodec(int codec);
// Returns whether pages of this compression are read.
bool ReadsParquetCodec(int codec);

// Unpacks the pages of a column, one after another. Not thread-safe.
class PageUnpacker {
 public:
  // REQUIRES: ReadsParquetCodec(codec).
  explicit PageUnpacker(int codec) : codec_(codec) {}

  // Returns the unpacked bytes, of which there must be `count`; valid until the next call, and as
  // long as `packed`. Memory grows with what is unpacked, not with what the file claims. DataLoss:
  // there are more or fewer, or they are damaged. ResourceExhausted: a library could not allocate
  // its state.
  absl::StatusOr<absl::string_view> Unpack(absl::string_view packed, size_t count);

 private:
  absl::Status UnpackSnappy(absl::string_view packed, size_t count);
  absl::Status UnpackBy(UnpackStream& stream, absl::string_view packed, size_t count);

  const int codec_;
  // The streams of gzip and Zstandard; each page is a whole one of its own.
  std::unique_ptr<UnpackStream> stream_;
  // The last page, with room for larger ones.
  std::string unpacked_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_PAGE_UNPACKER_H_
