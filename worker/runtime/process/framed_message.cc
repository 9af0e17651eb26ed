#include "worker/runtime/process/framed_message.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

absl::Status WriteAll(int socket, const char* data, size_t bytes) {
  while (bytes > 0) {
    // A closed peer is an error to return, not a signal.
    const ssize_t written = send(socket, data, bytes, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return absl::UnavailableError(
          absl::StrCat("control socket: write failed: ", std::strerror(errno)));
    }
    data += written;
    bytes -= written;
  }
  return absl::OkStatus();
}

// Reads up to `bytes` bytes; returns how many came before the end of the stream.
absl::StatusOr<size_t> ReadUpTo(int socket, char* data, size_t bytes) {
  size_t total = 0;
  while (total < bytes) {
    const ssize_t got = recv(socket, data + total, bytes - total, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(
          absl::StrCat("control socket: read failed: ", std::strerror(errno)));
    }
    if (got == 0) break;
    total += got;
  }
  return total;
}

}  // namespace

absl::Status WriteFrame(int socket, absl::string_view message) {
  const uint64_t length = message.size();
  char head[sizeof(length)];
  std::memcpy(head, &length, sizeof(length));
  MUSTER_RETURN_IF_ERROR(WriteAll(socket, head, sizeof(head)));
  return WriteAll(socket, message.data(), message.size());
}

absl::StatusOr<std::string> ReadFrame(int socket, size_t max_bytes) {
  uint64_t length = 0;
  char head[sizeof(length)];
  MUSTER_ASSIGN_OR_RETURN(size_t got, ReadUpTo(socket, head, sizeof(head)));
  if (got == 0) return absl::UnavailableError("control socket: closed by the other side");
  if (got < sizeof(head)) return absl::DataLossError("control socket: ended within a length");
  std::memcpy(&length, head, sizeof(length));
  if (length > max_bytes) {
    return absl::DataLossError(absl::StrCat("control socket: a message of ", length,
                                            " bytes, at most ", max_bytes, " are taken"));
  }
  std::string message(length, '\0');
  MUSTER_ASSIGN_OR_RETURN(got, ReadUpTo(socket, message.data(), length));
  if (got < length) {
    return absl::DataLossError(
        absl::StrCat("control socket: ended after ", got, " of ", length, " bytes"));
  }
  return message;
}

}  // namespace muster
