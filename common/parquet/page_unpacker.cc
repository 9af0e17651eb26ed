#include "common/parquet/page_unpacker.h"

#include <snappy.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/compression/gzip.h"
#include "common/compression/zstd.h"

namespace muster {
namespace {

// CompressionCodec of the format.
constexpr int kUncompressed = 0, kSnappy = 1, kGzip = 2, kZstd = 6;
constexpr std::array<absl::string_view, 8> kCodecs = {"none",   "snappy", "gzip", "LZO",
                                                      "Brotli", "LZ4",    "zstd", "LZ4"};
constexpr size_t kFirstRoom = size_t{1} << 20;
// A piece of Snappy's with two bytes at least stands for 64 at most.
constexpr size_t kMostSnappyRatio = 32;

absl::Status OtherCount(absl::string_view more_or_fewer, size_t count) {
  return absl::DataLossError(
      absl::StrCat("it unpacks to ", more_or_fewer, " than the ", count, " bytes that it should"));
}

}  // namespace

absl::string_view NameOfParquetCodec(int codec) {
  return codec < 0 || codec >= static_cast<int>(kCodecs.size()) ? "" : kCodecs[codec];
}

bool ReadsParquetCodec(int codec) {
  return codec == kUncompressed || codec == kSnappy || codec == kGzip || codec == kZstd;
}

absl::StatusOr<absl::string_view> PageUnpacker::Unpack(absl::string_view packed, size_t count) {
  if (codec_ == kUncompressed) {
    if (packed.size() != count) {
      return OtherCount(packed.size() > count ? "more" : "fewer", count);
    }
    return packed;
  }
  if (codec_ == kSnappy) {
    MUSTER_RETURN_IF_ERROR(UnpackSnappy(packed, count));
  } else {
    if (stream_ == nullptr) {
      MUSTER_ASSIGN_OR_RETURN(stream_, codec_ == kGzip ? GunzipStream() : UnzstdStream());
    }
    MUSTER_RETURN_IF_ERROR(UnpackBy(*stream_, packed, count));
  }
  return absl::string_view(unpacked_).substr(0, count);
}

absl::Status PageUnpacker::UnpackSnappy(absl::string_view packed, size_t count) {
  size_t claimed = 0;
  if (!snappy::GetUncompressedLength(packed.data(), packed.size(), &claimed)) {
    return absl::DataLossError("its Snappy stream is damaged");
  }
  if (claimed != count) return OtherCount(claimed > count ? "more" : "fewer", count);
  if (count / kMostSnappyRatio > packed.size()) return OtherCount("fewer", count);
  if (unpacked_.size() < count) unpacked_.resize(count);
  if (snappy::RawUncompress(packed.data(), packed.size(), unpacked_.data())) {
    return absl::OkStatus();
  }
  return absl::DataLossError("its Snappy stream is damaged");
}

absl::Status PageUnpacker::UnpackBy(UnpackStream& stream, absl::string_view packed, size_t count) {
  size_t filled = 0;
  absl::string_view rest = packed;
  while (filled < count) {
    if (filled == unpacked_.size()) {
      unpacked_.resize(std::min(count, std::max(kFirstRoom, 2 * unpacked_.size())));
    }
    const size_t room = std::min(count, unpacked_.size()) - filled;
    MUSTER_ASSIGN_OR_RETURN(const UnpackStream::Progress progress,
                            stream.Unpack(rest, absl::MakeSpan(unpacked_).subspan(filled, room)));
    rest.remove_prefix(progress.taken);
    filled += progress.made;
    if (progress.made == 0) return OtherCount("fewer", count);
  }
  // The end of the stream has no bytes of its own.
  char more = 0;
  MUSTER_ASSIGN_OR_RETURN(const UnpackStream::Progress progress,
                          stream.Unpack(rest, absl::Span<char>(&more, 1)));
  if (progress.made > 0) return OtherCount("more", count);
  if (stream.whole()) return absl::OkStatus();
  return absl::DataLossError("its compressed bytes end early");
}

}  // namespace muster
