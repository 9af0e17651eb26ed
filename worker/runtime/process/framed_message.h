#ifndef MUSTER_WORKER_RUNTIME_PROCESS_FRAMED_MESSAGE_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_FRAMED_MESSAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Whole messages over a stream socket between a daemon and its task: u64 length, little-endian,
// then the bytes. Blocks. Unavailable: the other side has closed.
absl::Status WriteFrame(int socket, absl::string_view message);

// DataLoss: the other side ended within a message, or announced one above `max_bytes`.
absl::StatusOr<std::string> ReadFrame(int socket, size_t max_bytes);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_FRAMED_MESSAGE_H_
