#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_HOT_PARTITIONS_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_HOT_PARTITIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/cluster/placement.h"
#include "server/coordinator/scheduling/move_plan.h"

namespace muster {

// Chooses the move that takes most load off the busiest server. Pure functions.
//
// A load is a number of cores: processor time per second, of all partitions of a server, whichever
// job they belong to. A job moves a partition from the busiest server to the least busy one that
// has the memory for it, if
//
//   - the busiest exceeds the mean of all servers by a quarter and by a tenth of a core, and
//   - afterwards the busier of the two has a load at least a tenth below the busiest one's of now.
//
// Of several partitions it takes the one that leaves the busier of the two with the least. Each
// such move lessens the sum of the squares of all loads, so loads that stay as they are never take
// a partition back and forth. Example: loads 1.9 (partitions of 1.2, 0.5 and 0.2) and 0.3: to move
// 1.2 would leave 1.5 on the other server, to move 0.5 leaves 1.4 and 0.8, so that one moves.

// Loads of servers, and of a job's partitions.
struct MeasuredLoads {
  std::map<std::string, double> servers;
  std::map<uint32_t, double> partitions;
};

struct HotMove {
  PlannedMove move;
  // Loads before the move.
  double partition = 0;
  double from = 0;
  double to = 0;
};

// Returns the move, or nullopt if none is worth it. Servers without a load in `loads` take no part.
// `capacity` lacks the servers that are being drained; `excluded` servers get nothing.
std::optional<HotMove> NextHotMove(const v1::JobRecord& record, const MeasuredLoads& loads,
                                   const ClusterCapacity& capacity,
                                   const absl::flat_hash_set<std::string>& excluded);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_HOT_PARTITIONS_H_
