#ifndef MUSTER_COMMON_TRANSPORT_BYTE_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_BYTE_STREAM_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

// A two-way connection, or several that serve as one. It delivers bytes in order and loses none.
// Nothing blocks. One thread at a time.
//
// After an error (Unavailable: closed or reset, with the system's words; Unauthenticated: received
// bytes were tampered with) the stream is unusable.
class ByteStream {
 public:
  enum class Push {
    // Send at once.
    kNow,
    // More follows shortly, and may travel together with these bytes.
    kLater,
  };

  virtual ~ByteStream() = default;

  // Takes over a prefix of `bytes` and returns its length; 0: no room now. Taken bytes arrive
  // without a further call, after kLater with a delay of up to 200 ms. The caller offers the other
  // bytes again, perhaps in other portions, since an implementation may have begun with them.
  virtual absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push push) = 0;

  // Sends the bytes written with kLater.
  virtual absl::Status Flush() = 0;

  // Moves bytes that have arrived to `out` and returns their number; 0: none now. The rest of `out`
  // is undefined.
  virtual absl::StatusOr<size_t> Read(absl::Span<std::byte> out) = 0;

  // Returns the descriptor to poll for the next byte to read, valid until the next Read. With
  // several connections, a break of another one shows when its turn comes.
  virtual int descriptor() const = 0;
  // Returns the descriptor to poll for room for the next byte to write, valid until the next Write.
  virtual int write_descriptor() const { return descriptor(); }

  // Returns true if Read may return bytes that poll does not know of.
  virtual bool HasHiddenBytes() const = 0;

  // Returns the transport's name, such as "tcp".
  virtual const char* name() const = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_BYTE_STREAM_H_
