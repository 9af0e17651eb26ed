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

// Which partition of a job is to move next, and where to: pure functions of the job's record and of
// what servers have left.
//
// First, partitions on servers that are being drained go to the server with the fewest of the job's
// partitions (of several the one with the most free bytes). Then, if the job is to be rebalanced,
// one goes from the server with the most to the one with the fewest, until these differ by one at
// most.

struct PlannedMove {
  uint32_t partition = 0;
  std::string from;
  std::string to;
};

// `capacity` lacks the servers that are being drained; `excluded` have yet to drop earlier tables
// of the job. Nothing: all partitions are where they should be. RESOURCE_EXHAUSTED: no server has
// room; says what is missing.
absl::StatusOr<std::optional<PlannedMove>> NextMove(
    const v1::JobRecord& record, const ClusterCapacity& capacity,
    const std::set<std::string, std::less<>>& draining,
    const absl::flat_hash_set<std::string>& excluded);

// Whether the whole job could be placed on what servers have left, and what it has itself.
absl::Status FitsElsewhere(const v1::JobRecord& record, const Demand& demand,
                           ClusterCapacity capacity);

// Partitions of the job on a server.
uint32_t CountPartitions(const std::string& server_id, const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_PLAN_H_
