#include "common/compression/zstd.h"

#include <zstd.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr int kWindowLog = 27;

class ZstdStream final : public UnpackStream {
 public:
  ZstdStream() : stream_(ZSTD_createDStream()) {
    if (stream_ != nullptr) ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kWindowLog);
  }
  ~ZstdStream() override { ZSTD_freeDStream(stream_); }

  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  bool usable() const { return stream_ != nullptr; }
  bool whole() const override { return whole_; }

  absl::StatusOr<Progress> Unpack(absl::string_view packed, absl::Span<char> unpacked) override {
    ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
    ZSTD_outBuffer out = {unpacked.data(), unpacked.size(), 0};
    // libzstd may hold unpacked bytes of what it has taken, so it is asked without any, too.
    while (out.pos < out.size) {
      const size_t before_in = in.pos;
      const size_t before_out = out.pos;
      // Asked after a whole frame, it would begin another one.
      if (whole_ && in.pos == in.size) break;
      const size_t result = ZSTD_decompressStream(stream_, &out, &in);
      taken_ += in.pos - before_in;
      if (ZSTD_isError(result) != 0) {
        return absl::DataLossError(absl::StrCat("the Zstandard stream is damaged at byte ", taken_,
                                                ": ", ZSTD_getErrorName(result)));
      }
      whole_ = result == 0;
      if (in.pos == before_in && out.pos == before_out) break;
    }
    return Progress{in.pos, out.pos};
  }

 private:
  ZSTD_DStream* const stream_;
  bool whole_ = false;
  uint64_t taken_ = 0;
};

}  // namespace

bool IsZstd(absl::string_view bytes) {
  constexpr absl::string_view kFrame("\x28\xb5\x2f\xfd", 4);
  constexpr absl::string_view kSkipped("\x2a\x4d\x18", 3);
  return absl::StartsWith(bytes, kFrame) ||
         (bytes.size() >= 4 && (static_cast<unsigned char>(bytes[0]) & 0xf0) == 0x50 &&
          absl::StartsWith(bytes.substr(1), kSkipped));
}

absl::StatusOr<std::unique_ptr<UnpackStream>> UnzstdStream() {
  auto stream = std::make_unique<ZstdStream>();
  if (!stream->usable()) {
    return absl::ResourceExhaustedError("libzstd could not allocate its state");
  }
  return std::unique_ptr<UnpackStream>(std::move(stream));
}

}  // namespace muster
