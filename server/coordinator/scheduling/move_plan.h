#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_PLAN_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_PLAN_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/cluster/placement.h"

namespace muster {

// Chooses the next partition of a job to move, and its target. Pure functions.
//
// First, partitions leave servers that are being drained for the server with the fewest of the
// job's partitions (of several, the one with the most free bytes). Then, to rebalance a job, one
// goes from the server with the most to the one with the fewest, until these differ by one at most.

struct PlannedMove {
  uint32_t partition = 0;
  std::string from;
  std::string to;
};

// Returns the next move, or nullopt if all partitions are where they should be. `capacity` lacks
// the servers that are being drained; `excluded` servers have yet to drop earlier tables of the
// job. RESOURCE_EXHAUSTED: no server has room; says what is missing.
absl::StatusOr<std::optional<PlannedMove>> NextMove(
    const v1::JobRecord& record, const ClusterCapacity& capacity,
    const std::set<std::string, std::less<>>& draining,
    const absl::flat_hash_set<std::string>& excluded);

// Checks that the whole job fits into what servers have left and what the job holds.
absl::Status FitsElsewhere(const v1::JobRecord& record, const Demand& demand,
                           ClusterCapacity capacity);

// Returns how many of the job's partitions a server has.
uint32_t CountPartitions(const std::string& server_id, const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_PLAN_H_
