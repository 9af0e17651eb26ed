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

// So many bytes go by one connection before the next one's turn. A writer waits for one connection
// at a time, and the others must not run dry meanwhile: so this is well below what the buffers of a
// busy connection hold, and no more than what a new one takes at once (87 KB of send buffer, a
// window of 64 KiB). It is four full TLS records, and enough to make a system call small beside the
// copying.
inline constexpr size_t kStripeBytes = 64 << 10;

// Several connections as one: byte i goes by connection (i / kStripeBytes) mod N, in either
// direction. Where the network limits a connection (clouds cap a flow at 5 to 10 Gb/s; on a long
// way its window does), N of them carry N times as much. With N = 3 and stripes a, b, c…:
//
//   connection 0   a d g …
//   connection 1   b e h …
//   connection 2   c f …
//
// Both ends know from the position alone by which connection the next byte goes, so that nothing is
// added to the bytes. Reading and writing each look at that connection only: what has come by the
// others waits in their buffers, and that one has broken shows when its turn comes. From then on
// the whole stream is broken.
class StripedStream final : public ByteStream {
 public:
  // REQUIRES: at least one, all of a kind, no byte passed yet; the other end has them in the same
  // order.
  explicit StripedStream(std::vector<std::unique_ptr<ByteStream>> connections);

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push push) override;
  absl::Status Flush() override;
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override;
  int descriptor() const override { return At(read_).descriptor(); }
  int write_descriptor() const override { return At(written_).write_descriptor(); }
  bool HasHiddenBytes() const override { return !broken_.ok() || At(read_).HasHiddenBytes(); }
  // Such as "tcp x 4".
  const char* name() const override { return name_.c_str(); }

 private:
  size_t IndexAt(uint64_t position) const {
    return static_cast<size_t>(position / kStripeBytes % connections_.size());
  }
  ByteStream& At(uint64_t position) const { return *connections_[IndexAt(position)]; }
  // Notes that the connection at `position` has failed so.
  void Break(uint64_t position, const absl::Status& status);

  const std::vector<std::unique_ptr<ByteStream>> connections_;
  const std::string name_;
  // Bytes so far.
  uint64_t written_ = 0;
  uint64_t read_ = 0;
  // Kept, as a call that moved bytes before the error tells of these alone.
  absl::Status broken_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_STRIPED_STREAM_H_
