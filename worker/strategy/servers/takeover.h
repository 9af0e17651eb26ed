#ifndef MUSTER_WORKER_STRATEGY_SERVERS_TAKEOVER_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_TAKEOVER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/strategy/servers/shard_router.h"

namespace muster {

namespace v1 {
class PartitionClocks;
class TaskOrder;
}  // namespace v1

// How a generation goes on with the tables that an earlier one left on the servers
// (TaskOrder.takes_over_generation), while other slots train than before.

// Returns the clock at which the generation goes on: the highest that some partition has completed,
// which it has once all slots have closed it there. A slot closes a clock anywhere only when all
// its pushes of the clock are in everywhere, so the other partitions lack closes of the last clock
// at most. Aborted, with the loss noted: a partition is further behind, or missing.
absl::StatusOr<uint64_t> ClockToGoOnAt(const std::vector<v1::PartitionClocks>& partitions,
                                       uint32_t count);

// Ends all earlier generations in all partitions of the order's shard map, or of a newer one, and
// returns ClockToGoOnAt of what they had reached. Repeats until all servers have answered. Aborted:
// the task must end, or, with the loss noted, servers have lost the tables.
absl::StatusOr<uint64_t> EndEarlierGenerations(const v1::TaskOrder& order,
                                               const ShardRouterDependencies& servers);

// Returns the order as it is towards servers: its slot is its position among those that train, and
// there are as many workers as these. A generation that takes tables over begins at `start_clock`
// and restores nothing. REQUIRES: member_slots is empty, or has the order's slot.
v1::TaskOrder OrderOfMember(const v1::TaskOrder& order, uint64_t start_clock);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_TAKEOVER_H_
