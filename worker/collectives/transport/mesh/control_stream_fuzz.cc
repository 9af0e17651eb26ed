#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "worker/collectives/transport/mesh/call_text.h"
#include "worker/collectives/transport/mesh/control_stream.h"

namespace muster {
namespace {

// The input as it came.
std::string BytesOf(const ControlMessage& message) {
  const auto length = static_cast<uint32_t>(message.body.size());
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes.push_back(static_cast<char>(message.kind));
  return bytes + message.body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const size_t first = input.Number<uint8_t>();
  // A socket's buffer takes this much.
  const absl::string_view bytes = input.rest().substr(0, 4096);
  int sockets[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
  const Descriptor peer(sockets[0]);
  ControlStream stream{Descriptor(sockets[1])};
  std::vector<ControlMessage> messages;
  absl::Status status;
  // In two parts, the first of which may end anywhere.
  for (const absl::string_view part :
       {bytes.substr(0, first), bytes.substr(std::min(first, bytes.size()))}) {
    if (part.empty() || !status.ok()) continue;
    FUZZ_CHECK(send(peer.get(), part.data(), part.size(), 0) == static_cast<ssize_t>(part.size()));
    status = stream.Receive(messages);
  }
  FUZZ_CHECK(status.ok() || status.code() == absl::StatusCode::kUnavailable);
  std::string received;
  for (const ControlMessage& message : messages) {
    received += BytesOf(message);
    if (message.body.size() < sizeof(CallState)) continue;
    FUZZ_CHECK(LastCallText(FuzzInput(reinterpret_cast<const uint8_t*>(message.body.data()),
                                      message.body.size())
                                .Number<CallState>())
                   .size() < 300);
  }
  FUZZ_CHECK(absl::StartsWith(bytes, received));
  return 0;
}

}  // namespace muster
