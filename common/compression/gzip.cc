#include "common/compression/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kMagic("\x1f\x8b", 2);
constexpr size_t kChunk = size_t{1} << 18;
// Most bytes for one call: zlib counts in unsigned int.
constexpr size_t kMostBytes = size_t{1} << 30;

class ZlibStream final : public UnpackStream {
 public:
  ZlibStream() : stream_(), state_(State::kMiddle) {
    // Adding 16 to the window's size makes zlib expect a gzip header.
    usable_ = inflateInit2(&stream_, MAX_WBITS + 16) == Z_OK;
  }
  ~ZlibStream() override {
    if (usable_) inflateEnd(&stream_);
  }

  ZlibStream(const ZlibStream&) = delete;
  ZlibStream& operator=(const ZlibStream&) = delete;

  bool usable() const { return usable_; }
  bool whole() const override { return state_ != State::kMiddle; }

  absl::StatusOr<Progress> Unpack(absl::string_view packed, absl::Span<char> unpacked) override {
    Progress progress;
    // zlib may hold unpacked bytes of what it has taken, so it is asked without any, too.
    while (progress.made < unpacked.size()) {
      const absl::string_view rest = packed.substr(progress.taken, kMostBytes);
      if (state_ == State::kBetween && !rest.empty()) {
        state_ = rest.front() == kMagic.front() ? State::kMiddle : State::kAfter;
        if (state_ == State::kMiddle) inflateReset(&stream_);
      }
      if (state_ == State::kAfter) progress.taken = packed.size();
      if (state_ != State::kMiddle) break;
      const size_t room = std::min(kMostBytes, unpacked.size() - progress.made);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest.data()));
      stream_.avail_in = static_cast<uInt>(rest.size());
      stream_.next_out = reinterpret_cast<Bytef*>(unpacked.data() + progress.made);
      stream_.avail_out = static_cast<uInt>(room);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      progress.taken += rest.size() - stream_.avail_in;
      progress.made += room - stream_.avail_out;
      taken_ += rest.size() - stream_.avail_in;
      if (result == Z_BUF_ERROR) break;
      if (result == Z_STREAM_END) {
        state_ = State::kBetween;
      } else if (result != Z_OK) {
        return absl::DataLossError(absl::StrCat("the gzip stream is damaged at byte ", taken_, ": ",
                                                stream_.msg != nullptr ? stream_.msg : "unknown"));
      }
    }
    return progress;
  }

 private:
  z_stream stream_;
  bool usable_ = false;
  // Within a member, after one, or in what follows the last one.
  enum class State { kMiddle, kBetween, kAfter };
  State state_;
  uint64_t taken_ = 0;
};

}  // namespace

bool IsGzip(absl::string_view bytes) { return absl::StartsWith(bytes, kMagic); }

absl::StatusOr<std::unique_ptr<UnpackStream>> GunzipStream() {
  auto stream = std::make_unique<ZlibStream>();
  if (!stream->usable()) return absl::ResourceExhaustedError("zlib could not allocate its state");
  return std::unique_ptr<UnpackStream>(std::move(stream));
}

absl::StatusOr<std::string> Gunzip(absl::string_view bytes, size_t limit) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<UnpackStream> stream, GunzipStream());
  std::string output;
  absl::string_view rest = bytes;
  while (output.size() < limit) {
    const size_t filled = output.size();
    output.resize(filled + std::min(kChunk, limit - filled));
    MUSTER_ASSIGN_OR_RETURN(const UnpackStream::Progress progress,
                            stream->Unpack(rest, absl::MakeSpan(output).subspan(filled)));
    rest.remove_prefix(progress.taken);
    output.resize(filled + progress.made);
    if (progress.made > 0) continue;
    if (stream->whole()) break;
    return absl::DataLossError(absl::StrCat("the gzip stream ends early, after ", bytes.size(),
                                            " bytes, which hold ", output.size(),
                                            " unpacked bytes"));
  }
  return output;
}

}  // namespace muster
