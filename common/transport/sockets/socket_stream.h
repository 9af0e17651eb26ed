#ifndef MUSTER_COMMON_TRANSPORT_SOCKETS_SOCKET_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_SOCKETS_SOCKET_STREAM_H_

#include <utility>

#include "common/transport/byte_stream.h"
#include "common/transport/descriptor.h"

namespace muster {

// A connected TCP socket as it is. REQUIRES: it does not block.
class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(Descriptor socket) : socket_(std::move(socket)) {}

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push push) override;
  absl::Status Flush() override;
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override;
  int descriptor() const override { return socket_.get(); }
  bool HasHiddenBytes() const override { return false; }
  const char* name() const override { return "tcp"; }

 private:
  Descriptor socket_;
  bool held_back_ = false;
};

// Options of a TCP connection that carries data: no delay of small segments, and a peer whose
// machine is gone while nothing is being sent is noticed within some 10 s.
void SetTcpOptions(int socket);

// The same while something is being sent. For control connections only: the kernel counts a peer
// that does not read, and so has no room, as one that does not answer, and on a data connection
// that is a peer that computes.
void EndWhenUnanswered(int socket);

// For a connection whose both ends are on this machine; does nothing to others. Buffers in the
// kernel are small, so that what is sent is received while it is still in the processors' caches,
// and no congestion control paces what is sent: BBR, some systems' default, sets a timer for each
// 64 KiB, on loopback too. Each of the two halves the cost of long messages; between machines they
// would limit the speed. REQUIRES: the socket is connected.
void SetLocalTcpOptions(int socket);

// Sends what MSG_MORE held back.
void PushTcp(int socket);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SOCKETS_SOCKET_STREAM_H_
