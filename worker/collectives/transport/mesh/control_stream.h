#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_CONTROL_STREAM_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_CONTROL_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/byte_stream.h"
#include "common/transport/descriptor.h"

namespace muster {

enum class ControlKind : uint8_t {
  // Status code as uint32, text.
  kAbort = 1,
  // Number of the survey as uint64.
  kSurvey = 2,
  // Number of the survey, CallState.
  kState = 3,
  // The sender leaves in order; the body is empty.
  kGoodbye = 4,
  // Number of the allocation and bytes per rank as uint64, with a descriptor on unix sockets.
  kMemory = 5,
};

struct ControlMessage {
  ControlKind kind = ControlKind::kGoodbye;
  std::string body;
  // Descriptor of the memory, for kMemory.
  Descriptor descriptor;
};

// Carries the messages of one control connection, over TCP (plain or TLS), or over a unix socket
// with descriptors. Nothing blocks. Used by one thread at a time.
class ControlStream {
 public:
  // Uses a TCP connection.
  explicit ControlStream(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}
  // Uses a unix socket.
  explicit ControlStream(Descriptor unix_socket) : unix_socket_(std::move(unix_socket)) {}

  // Queues a message. REQUIRES: a descriptor on unix sockets only.
  void Send(ControlMessage message);
  // Sends what is queued, as far as possible now; pending() tells whether something is left.
  absl::Status Push();
  bool pending() const { return !outgoing_.empty(); }

  // Appends the messages that have come, also those before an error. After it there are no more.
  absl::Status Receive(std::vector<ControlMessage>& into);

  int descriptor() const { return stream_ != nullptr ? stream_->descriptor() : unix_socket_.get(); }

 private:
  struct Outgoing {
    std::string bytes;
    size_t sent = 0;
    Descriptor descriptor;
  };

  absl::StatusOr<size_t> SendSome(Outgoing& message);
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out);
  absl::Status Parse(std::vector<ControlMessage>& into);

  // Exactly one of the two is set.
  const std::unique_ptr<ByteStream> stream_;
  const Descriptor unix_socket_;
  std::deque<Outgoing> outgoing_;
  std::string incoming_;
  std::vector<Descriptor> descriptors_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_CONTROL_STREAM_H_
