#ifndef MUSTER_CLIENT_COMPARE_TRAFFIC_PREDICTION_H_
#define MUSTER_CLIENT_COMPARE_TRAFFIC_PREDICTION_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

namespace v1 {
class PartitionPlacement;
class TablesSchema;
}  // namespace v1

// Payload bytes of one step that follow from the layout alone: dense parameters. Rows of sparse
// tables depend on the data.
struct PredictedTraffic {
  // A worker sends (gradients) and receives.
  double worker_sent = 0;
  double worker_received = 0;
  // Each server sends (parameters), by id; empty on the all-reduce road.
  std::map<std::string, double> server_sent;
};

// Of the parameter-server road: every worker pushes and pulls every block once; a server sends its
// partitions' blocks to every worker. `partitions` is the shard map; `element_bytes`: of gradients
// and parameters on the wire. InvalidArgument: the schema is wrong.
absl::StatusOr<PredictedTraffic> PredictServerTraffic(
    const v1::TablesSchema& schema, absl::Span<const v1::PartitionPlacement* const> partitions,
    int workers, int element_bytes);

// Of the all-reduce road: 2(W-1)/W of the gradients' bytes each way, as any ring or direct
// reduce-scatter and all-gather moves. `element_bytes`: of a gradient on the wire.
absl::StatusOr<PredictedTraffic> PredictAllReduceTraffic(const v1::TablesSchema& schema,
                                                         int workers, int element_bytes);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_TRAFFIC_PREDICTION_H_
