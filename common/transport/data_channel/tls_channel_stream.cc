#include "common/transport/data_channel/tls_channel_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kRecordBytes = 16 << 10;
// After so many bytes the loop's other connections have their turn.
constexpr size_t kTlsTurnBytes = 1 << 20;

class TlsChannelStream final : public ChannelStream {
 public:
  explicit TlsChannelStream(std::unique_ptr<TlsStream> stream) : stream_(std::move(stream)) {}

  absl::StatusOr<size_t> Write(absl::Span<const iovec> spans) override {
    size_t written = 0;
    // Offset of the next byte in the first remaining span.
    size_t offset = 0;
    while (!spans.empty() && written < kTlsTurnBytes) {
      absl::Span<const std::byte> next(static_cast<const std::byte*>(spans[0].iov_base) + offset,
                                       spans[0].iov_len - offset);
      size_t rest = next.size();
      for (const iovec& span : spans.subspan(1)) rest += span.iov_len;
      if (next.size() < kRecordBytes && next.size() < rest) {
        next = Gather(spans, offset);
      }
      next = next.first(std::min(next.size(), kTlsTurnBytes - written));
      // The last bytes of a turn must not wait for the next turn.
      const bool goes_on = next.size() < std::min(rest, kTlsTurnBytes - written);
      const auto push = goes_on ? ByteStream::Push::kLater : ByteStream::Push::kNow;
      MUSTER_ASSIGN_OR_RETURN(const size_t taken, stream_->Write(next, push));
      written += taken;
      if (taken < next.size()) break;
      for (offset += taken; !spans.empty() && offset >= spans[0].iov_len;) {
        offset -= spans[0].iov_len;
        spans.remove_prefix(1);
      }
    }
    return written;
  }

  bool HasBegun() const override { return stream_->HasBegun(); }

  absl::StatusOr<Received> Read(absl::Span<const iovec> spans) override {
    Received received{.bytes = 0, .drained = false};
    for (const iovec& span : spans) {
      const absl::Span<std::byte> place(static_cast<std::byte*>(span.iov_base), span.iov_len);
      for (size_t filled = 0; filled < place.size();) {
        if (received.bytes >= kTlsTurnBytes) return received;
        absl::StatusOr<size_t> got = stream_->Read(place.subspan(filled));
        if (!got.ok()) {
          // Returns what came before the error; the stream repeats the error.
          if (received.bytes == 0) return got.status();
          return received;
        }
        if (*got == 0) {
          received.drained = true;
          return received;
        }
        filled += *got;
        received.bytes += *got;
        if (stream_->drained()) {
          received.drained = true;
          return received;
        }
      }
    }
    return received;
  }

  int descriptor() const override { return stream_->descriptor(); }
  const char* kind() const override { return "tls"; }

 private:
  // Returns a record's worth of bytes from `offset` in the first span on, or all there are, in one
  // place.
  absl::Span<const std::byte> Gather(absl::Span<const iovec> spans, size_t offset) {
    gathered_.clear();
    for (const iovec& span : spans) {
      const auto* begin = static_cast<const std::byte*>(span.iov_base) + offset;
      const size_t length = std::min(span.iov_len - offset, kRecordBytes - gathered_.size());
      gathered_.insert(gathered_.end(), begin, begin + length);
      offset = 0;
      if (gathered_.size() == kRecordBytes) break;
    }
    return gathered_;
  }

  const std::unique_ptr<TlsStream> stream_;
  std::vector<std::byte> gathered_;
};

}  // namespace

std::unique_ptr<ChannelStream> MakeTlsChannelStream(std::unique_ptr<TlsStream> stream) {
  return std::make_unique<TlsChannelStream>(std::move(stream));
}

}  // namespace muster
