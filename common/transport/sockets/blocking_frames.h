#ifndef MUSTER_COMMON_TRANSPORT_SOCKETS_BLOCKING_FRAMES_H_
#define MUSTER_COMMON_TRANSPORT_SOCKETS_BLOCKING_FRAMES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"

// Messages behind their length on sockets that do not block, for handshakes. These functions wait
// until the deadline at most, and read nothing past the message. Errors: Unavailable, or the status
// of the deadline's interrupt.
namespace muster {

constexpr size_t kMaxFrameBytes = 64 << 10;

absl::Status SendFrame(int socket, absl::string_view frame, Deadline deadline);
absl::StatusOr<std::string> ReceiveFrame(int socket, Deadline deadline);

// A message with descriptors, over a unix socket.
struct DescriptorFrame {
  std::string bytes;
  std::vector<Descriptor> descriptors;
};
absl::Status SendDescriptors(int socket, absl::string_view frame, absl::Span<const int> descriptors,
                             Deadline deadline);
absl::StatusOr<DescriptorFrame> ReceiveDescriptors(int socket, Deadline deadline);

// Blocks until poll reports one of `events`. Unavailable: not in time.
absl::Status AwaitSocket(int socket, short events, Deadline deadline);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SOCKETS_BLOCKING_FRAMES_H_
