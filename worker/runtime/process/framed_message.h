#ifndef MUSTER_WORKER_RUNTIME_PROCESS_FRAMED_MESSAGE_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_FRAMED_MESSAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Writes a message to the socket between a daemon and its task: its length as a little-endian u64,
// then its bytes. Blocks. Unavailable: the other side has closed the socket.
absl::Status WriteFrame(int socket, absl::string_view message);

// Reads the next message. Blocks; errors as WriteFrame. DataLoss: the stream ended within a
// message, or the message is longer than `max_bytes`.
absl::StatusOr<std::string> ReadFrame(int socket, size_t max_bytes);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_FRAMED_MESSAGE_H_
