#include "common/transport/sockets/blocking_frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/sockets/unix_descriptors.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

bool MustWait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

absl::Status ReceiveAll(int socket, absl::Span<char> out, Deadline deadline,
                        std::vector<Descriptor>* descriptors) {
  while (!out.empty()) {
    const ssize_t got = descriptors != nullptr ? ReceiveWithDescriptors(socket, out, *descriptors)
                                               : recv(socket, out.data(), out.size(), MSG_DONTWAIT);
    if (got == 0) return absl::UnavailableError("the other end has closed the connection");
    if (got < 0) {
      if (!MustWait(errno)) return SystemError("recv");
      MUSTER_RETURN_IF_ERROR(AwaitSocket(socket, POLLIN, deadline));
      continue;
    }
    out.remove_prefix(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiveLengthAndBytes(int socket, Deadline deadline,
                                                  std::vector<Descriptor>* descriptors) {
  uint32_t length = 0;
  MUSTER_RETURN_IF_ERROR(
      ReceiveAll(socket, absl::MakeSpan(reinterpret_cast<char*>(&length), sizeof(length)), deadline,
                 descriptors));
  if (length > kMaxFrameBytes) {
    return absl::UnavailableError(absl::StrCat("a message of ", length, " bytes, expected at most ",
                                               kMaxFrameBytes,
                                               "; the other end speaks another protocol"));
  }
  std::string bytes(length, '\0');
  MUSTER_RETURN_IF_ERROR(ReceiveAll(socket, absl::MakeSpan(bytes), deadline, descriptors));
  return bytes;
}

}  // namespace

absl::Status AwaitSocket(int socket, short events, Deadline deadline) {
  while (true) {
    MUSTER_RETURN_IF_ERROR(deadline.status());
    pollfd descriptor = {socket, events, 0};
    if (poll(&descriptor, 1, deadline.nap_milliseconds()) > 0) return absl::OkStatus();
  }
}

absl::Status SendDescriptors(int socket, absl::string_view frame, absl::Span<const int> descriptors,
                             Deadline deadline) {
  const auto length = static_cast<uint32_t>(frame.size());
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes.append(frame.data(), frame.size());
  absl::Span<const char> rest = bytes;
  while (!rest.empty()) {
    const ssize_t sent = SendWithDescriptors(socket, rest, descriptors);
    if (sent < 0) {
      if (!MustWait(errno)) return SystemError("send");
      MUSTER_RETURN_IF_ERROR(AwaitSocket(socket, POLLOUT, deadline));
      continue;
    }
    descriptors = {};
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::StatusOr<DescriptorFrame> ReceiveDescriptors(int socket, Deadline deadline) {
  DescriptorFrame frame;
  MUSTER_ASSIGN_OR_RETURN(frame.bytes, ReceiveLengthAndBytes(socket, deadline, &frame.descriptors));
  return frame;
}

absl::Status SendFrame(int socket, absl::string_view frame, Deadline deadline) {
  return SendDescriptors(socket, frame, {}, deadline);
}

absl::StatusOr<std::string> ReceiveFrame(int socket, Deadline deadline) {
  return ReceiveLengthAndBytes(socket, deadline, nullptr);
}

}  // namespace muster
