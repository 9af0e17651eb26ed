#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_STRIPED_STREAM_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_STRIPED_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/byte_stream.h"

namespace muster {

// Bytes that go by one connection before the next one's turn. A writer waits for one connection at
// a time, and the others must not run dry meanwhile: a stripe is well below what the buffers of a
// busy connection hold, and no more than a new one takes at once (87 KB of send buffer, a window of
// 64 KiB). Four full TLS records; large enough that a system call costs little beside the copying.
inline constexpr size_t kStripeBytes = 64 << 10;

// Several connections as one stream: byte i goes by connection (i / kStripeBytes) mod N, in either
// direction. If the network limits a connection (clouds cap a flow at 5 to 10 Gb/s; over a long
// distance its window does), N of them carry N times as much. With N = 3 and stripes a, b, c…:
//
//   connection 0   a d g …
//   connection 1   b e h …
//   connection 2   c f …
//
// Both ends know from the position alone by which connection the next byte goes, so that nothing is
// added to the bytes. Reads and writes look at that connection only: bytes of the others wait in
// their buffers, and a broken connection shows when its turn comes. From then on the whole stream
// is broken.
class StripedStream final : public ByteStream {
 public:
  // REQUIRES: at least one; all of a kind and unused; in the same order at the other end.
  explicit StripedStream(std::vector<std::unique_ptr<ByteStream>> connections);

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push push) override;
  absl::Status Flush() override;
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override;
  int descriptor() const override { return At(read_).descriptor(); }
  int write_descriptor() const override { return At(written_).write_descriptor(); }
  bool HasHiddenBytes() const override { return !broken_.ok() || At(read_).HasHiddenBytes(); }
  // Returns a name such as "tcp x 4".
  const char* name() const override { return name_.c_str(); }

 private:
  size_t IndexAt(uint64_t position) const {
    return static_cast<size_t>(position / kStripeBytes % connections_.size());
  }
  ByteStream& At(uint64_t position) const { return *connections_[IndexAt(position)]; }
  // Records that the connection at `position` has failed with `status`.
  void Break(uint64_t position, const absl::Status& status);

  const std::vector<std::unique_ptr<ByteStream>> connections_;
  const std::string name_;
  // Bytes written and read so far.
  uint64_t written_ = 0;
  uint64_t read_ = 0;
  // The first error, kept because a call that moved bytes before it returns only their number.
  absl::Status broken_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_STRIPED_STREAM_H_
