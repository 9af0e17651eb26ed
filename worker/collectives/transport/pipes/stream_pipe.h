#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_STREAM_PIPE_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_STREAM_PIPE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/transport/byte_stream.h"
#include "worker/collectives/transport/pipes/group_health.h"
#include "worker/collectives/transport/pipes/host_pipe.h"

namespace muster {

// A pipe over a connection. Write sends straight from the caller's memory, and Read receives
// straight into it. Peek receives into the pipe's own buffer, where byte i of the stream lies at a
// place congruent to i modulo 64: aligned elements stay aligned, also when moved to the front in
// part.
//
// A broken connection gives no more bytes. Whoever waits for the pipe finds out whether the peer
// died, left, or only lost the connection.
class StreamPipe final : public HostPipe {
 public:
  // `health` must outlive this.
  StreamPipe(std::unique_ptr<ByteStream> stream, GroupHealth& health);
  ~StreamPipe() override;

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes) override;
  absl::StatusOr<absl::Span<const std::byte>> Peek(size_t want) override;
  void Consume(size_t bytes) override;
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override;
  absl::Status Flush() override;
  bool in_memory() const override { return false; }

  bool Moved(const PipeInterest& interest) const override;
  void Arm(const PipeInterest& interest, Sleep how) override {}
  void Disarm() override {}
  void BeforeSleep() override;
  int descriptor() const override { return stream_->descriptor(); }
  int write_descriptor() const override { return stream_->write_descriptor(); }
  int processor() const override { return -1; }
  absl::Status broken() const override { return broken_; }
  const char* description() const override { return stream_->name(); }

 private:
  // Receives into the buffer.
  void Fill(size_t want);
  void MakeRoom();

  const std::unique_ptr<ByteStream> stream_;
  GroupHealth& health_;
  struct FreeDeleter {
    void operator()(std::byte* bytes) const;
  };
  const std::unique_ptr<std::byte, FreeDeleter> buffer_;
  // The buffer holds bytes in [begin_, end_).
  size_t begin_ = 0;
  size_t end_ = 0;
  // Position of buffer_[begin_] in the stream.
  uint64_t position_ = 0;
  absl::Status broken_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_STREAM_PIPE_H_
