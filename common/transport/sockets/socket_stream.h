#ifndef MUSTER_COMMON_TRANSPORT_SOCKETS_SOCKET_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_SOCKETS_SOCKET_STREAM_H_

#include <utility>

#include "common/transport/byte_stream.h"
#include "common/transport/descriptor.h"

namespace muster {

// A plain, connected TCP socket. REQUIRES: the socket does not block.
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

// Sets a data connection's TCP options: small segments are not delayed, and a peer whose machine is
// gone while nothing is being sent is noticed within some 10 s.
void SetTcpOptions(int socket);

// Ends the connection when what was sent stays unanswered for 10 s. For control connections only:
// the kernel takes a peer that does not read, and so has no room, for one that does not answer, and
// on a data connection such a peer is one that computes.
void EndWhenUnanswered(int socket);

// Tunes a connection with both ends on this machine; does nothing to others. Small kernel buffers
// let the receiver find the bytes still in the processors' caches, and no congestion control paces
// them: BBR, some systems' default, sets a timer for each 64 KiB, on loopback too. Each of the two
// halves the cost of long messages; between machines they would limit the speed. REQUIRES: the
// socket is connected.
void SetLocalTcpOptions(int socket);

// Sends what MSG_MORE held back.
void PushTcp(int socket);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SOCKETS_SOCKET_STREAM_H_
