#ifndef MUSTER_COMMON_COMPRESSION_UNPACK_STREAM_H_
#define MUSTER_COMMON_COMPRESSION_UNPACK_STREAM_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// Unpacks a compressed stream that comes in parts. Memory does not grow with what is unpacked. Not
// thread-safe.
class UnpackStream {
 public:
  virtual ~UnpackStream() = default;

  struct Progress {
    // Bytes taken from the packed ones.
    size_t taken = 0;
    // Bytes written to the unpacked ones.
    size_t made = 0;
  };
  // Unpacks as much as both sides allow. Where nothing was made, all packed bytes were taken, and
  // more are needed. DataLoss: the stream is damaged; the message says at which byte.
  // REQUIRES: `unpacked` is not empty.
  virtual absl::StatusOr<Progress> Unpack(absl::string_view packed, absl::Span<char> unpacked) = 0;

  // Returns whether the stream may end here.
  virtual bool whole() const = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPRESSION_UNPACK_STREAM_H_
