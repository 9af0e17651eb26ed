#ifndef MUSTER_WORKER_STRATEGY_SERVERS_CLOCK_ENTRANCE_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_CLOCK_ENTRANCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/strategy/servers/shard_router.h"

namespace muster {

// A slot's way into clocks that do not wait for backup workers (UpdateSpec.backup_workers). Before
// it pushes, a slot asks partition 0 whether the clock takes its gradients. This costs a round trip
// per step, and pushes do not travel while backward computes. Used by one thread.
class ClockEntrance {
 public:
  // Partition 0's decision on a clock.
  struct Entry {
    // Slots that the clock does not wait for. A slot that repeats an old clock may get none.
    std::vector<uint32_t> left_out;
    // A slot that is one of them goes on at this clock, the one that takes entries now.
    uint64_t newest_clock = 0;

    bool LeavesOut(uint32_t slot) const;
    // Returns the lowest slot that the clock waits for.
    uint32_t FirstSlot() const;
  };

  // The router outlives this object. A close counts the pushes to `sparse_tables` tables.
  ClockEntrance(ShardRouter& router, uint32_t slot, uint32_t partitions, size_t sparse_tables)
      : router_(router), slot_(slot), partitions_(partitions), sparse_tables_(sparse_tables) {}

  // Enters the clock, or asks again; blocks until it is decided. Errors are the router's.
  absl::StatusOr<Entry> Enter(uint64_t clock);

  // Closes the clocks from `first` to `end` - 1 on all partitions without gradients: those that
  // the closes of others have not closed for this slot there. Blocks until all is acknowledged.
  // Errors are the router's.
  absl::Status CloseWithout(uint64_t first, uint64_t end);

 private:
  ShardRouter& router_;
  const uint32_t slot_;
  const uint32_t partitions_;
  const size_t sparse_tables_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_CLOCK_ENTRANCE_H_
