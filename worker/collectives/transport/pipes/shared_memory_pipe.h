#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_SHARED_MEMORY_PIPE_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_SHARED_MEMORY_PIPE_H_

#include <cstddef>
#include <string>
#include <utility>

#include "common/transport/shared_memory/byte_ring.h"
#include "common/transport/shared_memory/group_memory.h"
#include "common/transport/shared_memory/shared_region.h"
#include "worker/collectives/transport/pipes/doorbell.h"
#include "worker/collectives/transport/pipes/group_health.h"
#include "worker/collectives/transport/pipes/host_pipe.h"

namespace muster {

// The memory that a pair of ranks on one machine shares.
struct SharedPair {
  // Two rings, one per direction (kPairBytes): the lower rank writes the first.
  SharedRegion rings;
  bool lower = false;
  // The peer's doorbell.
  Doorbell bell;
};

class SharedMemoryPipe final : public HostPipe {
 public:
  // `peer` is the peer's name in errors. `health` must outlive this object.
  SharedMemoryPipe(std::string peer, SharedPair pair, GroupHealth& health);

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes) override;
  absl::StatusOr<absl::Span<const std::byte>> Peek(size_t want) override;
  void Consume(size_t bytes) override;
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override;
  absl::Status Flush() override;
  bool in_memory() const override { return true; }

  bool Moved(const PipeInterest& interest) const override;
  void Arm(const PipeInterest& interest, Sleep how) override;
  void Disarm() override;
  void BeforeSleep() override;
  int descriptor() const override { return -1; }
  int processor() const override { return pair_.bell.processor(); }
  absl::Status broken() const override { return absl::OkStatus(); }
  const char* description() const override { return "shared memory"; }

  Doorbell& peer_bell() { return pair_.bell; }

 private:
  absl::Status Fail(const absl::Status& reason);
  void WakeReader();
  void WakeWriter(RingReader::Reason reason);

  const std::string peer_;
  SharedPair pair_;
  GroupHealth& health_;
  RingWriter writer_;
  RingReader reader_;
  // Bytes written since the reader was last woken.
  size_t unflushed_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_SHARED_MEMORY_PIPE_H_
