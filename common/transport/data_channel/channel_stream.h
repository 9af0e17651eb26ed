#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_STREAM_H_

#include <sys/uio.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/descriptor.h"

namespace muster {

// The connection of a SocketChannel: bytes in order, both ways, sent from the pieces where they lie
// and received into pieces. Nothing blocks. After an error (Unavailable: closed or reset;
// Unauthenticated: what came was tampered with) it is of no more use in that direction. One thread
// may write while another reads.
class ChannelStream {
 public:
  virtual ~ChannelStream() = default;

  // Takes over a prefix of the pieces' bytes and returns its length; 0: no room now, which poll
  // reports when there is some. Bytes that were not taken are offered again, perhaps in other
  // pieces: an implementation may have begun with them.
  virtual absl::StatusOr<size_t> Write(absl::Span<const iovec> pieces) = 0;
  // Whether it has.
  virtual bool HasBegun() const = 0;

  struct Received {
    // 0: there is nothing now, which poll reports when it changes.
    size_t bytes = 0;
    // That was all, unless the other end has closed since.
    bool drained = true;
  };
  // Moves bytes that have arrived to the pieces, in their order.
  virtual absl::StatusOr<Received> Read(absl::Span<const iovec> pieces) = 0;

  virtual int descriptor() const = 0;
  // As ChannelStats calls it.
  virtual const char* kind() const = 0;
};

// A connected TCP socket as it is. REQUIRES: it does not block.
std::unique_ptr<ChannelStream> MakePlainChannelStream(Descriptor socket);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_STREAM_H_
