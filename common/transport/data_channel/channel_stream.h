#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_STREAM_H_

#include <sys/uio.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/descriptor.h"

namespace muster {

// The connection of a SocketChannel. It carries bytes in order, both ways, and sends from and
// receives into lists of memory spans. Nothing blocks. After an error (Unavailable: closed or
// reset; Unauthenticated: received bytes were tampered with) the stream is unusable in that
// direction. One thread may write while another reads.
class ChannelStream {
 public:
  virtual ~ChannelStream() = default;

  // Takes over a prefix of the spans' bytes and returns its length; 0: no room now, and poll
  // reports when there is some. The caller offers the other bytes again, perhaps in other spans,
  // since an implementation may have begun with them.
  virtual absl::StatusOr<size_t> Write(absl::Span<const iovec> spans) = 0;
  // Returns true if the stream has begun with bytes that Write was offered and did not take.
  virtual bool HasBegun() const = 0;

  struct Received {
    // Number of bytes; 0: none have arrived, and poll reports when some do.
    size_t bytes = 0;
    // True if all that had arrived was read, unless the other end has closed since.
    bool drained = true;
  };
  // Moves bytes that have arrived to the spans, in their order.
  virtual absl::StatusOr<Received> Read(absl::Span<const iovec> spans) = 0;

  virtual int descriptor() const = 0;
  // Returns the kind's name in ChannelStats.
  virtual const char* kind() const = 0;
};

// Returns a stream over a plain, connected TCP socket. REQUIRES: the socket does not block.
std::unique_ptr<ChannelStream> MakePlainChannelStream(Descriptor socket);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_STREAM_H_
