#ifndef MUSTER_COMMON_TRANSPORT_BYTE_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_BYTE_STREAM_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

// A connection, or several that serve as one: bytes in order, both ways, none lost. Nothing blocks.
// One thread at a time.
//
// After an error (Unavailable: closed or reset, with the system's words; Unauthenticated: what came
// was tampered with) the stream is of no more use.
class ByteStream {
 public:
  enum class Push {
    // Send at once.
    kNow,
    // More follows shortly: they may travel together.
    kLater,
  };

  virtual ~ByteStream() = default;

  // Takes over a prefix of `bytes` and returns its length; 0: no room now. Taken bytes need no
  // further call to arrive, after kLater with a delay of up to 200 ms. Bytes that were not taken
  // are offered again, perhaps in other pieces: an implementation may have begun with them.
  virtual absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push push) = 0;

  // Sends what was written with kLater.
  virtual absl::Status Flush() = 0;

  // Moves bytes that have arrived to `out`, and returns how many; 0: none now. What is in `out`
  // behind them is undefined.
  virtual absl::StatusOr<size_t> Read(absl::Span<std::byte> out) = 0;

  // To poll for the next byte to read. Of several connections it is the one that this byte comes
  // by, until the next call of Read: that another one has broken shows when its turn comes.
  virtual int descriptor() const = 0;
  // To poll for room for the next byte to write, likewise until the next call of Write.
  virtual int write_descriptor() const { return descriptor(); }

  // Whether Read may return bytes that poll does not know of.
  virtual bool HasHiddenBytes() const = 0;

  // Such as "tcp".
  virtual const char* name() const = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_BYTE_STREAM_H_
