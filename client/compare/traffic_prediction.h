#ifndef MUSTER_CLIENT_COMPARE_TRAFFIC_PREDICTION_H_
#define MUSTER_CLIENT_COMPARE_TRAFFIC_PREDICTION_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

namespace v1 {
class JobSpec;
class PartitionPlacement;
class TablesSchema;
class UpdateSpec;
}  // namespace v1

// Payload bytes of a step that one worker sends and receives.
struct WorkerTraffic {
  double sent = 0;
  double received = 0;

  friend bool operator==(const WorkerTraffic& a, const WorkerTraffic& b) {
    return a.sent == b.sent && a.received == b.received;
  }
};

// Zeros if there are none.
WorkerTraffic MeanOf(absl::Span<const WorkerTraffic> workers);

// Payload bytes of one step that follow from the layout alone: dense parameters. Rows of sparse
// tables depend on the data.
struct PredictedTraffic {
  // By slot. By all-reduce workers differ where they do not own equal parts of a bucket.
  std::vector<WorkerTraffic> workers;
  // Each server sends (parameters), by id; empty on the all-reduce road.
  std::map<std::string, double> server_sent;
};

// Of the parameter-server road: every worker pushes and pulls every block once; a server sends its
// partitions' blocks to every worker. Gradients and parameters are of the wire's type; where that
// is f32, parameters that are computed with in 16 bits alone come so (PulledTypes), unless devices
// compute. `partitions` is the shard map; `spec` names workers, wire and devices. InvalidArgument:
// the tensors cannot be laid out.
absl::StatusOr<PredictedTraffic> PredictServerTraffic(
    const v1::TablesSchema& schema, absl::Span<const v1::PartitionPlacement* const> partitions,
    const v1::JobSpec& spec);

// What the ranks of an all-reduce reach one another by.
enum class AllReduceWay { kSharedMemory, kTcp, kDevices };

// Of the all-reduce road: what the schedule moves that is chosen for each of the buckets that the
// gradient is cut into. With P the bytes of the gradient, a rank sends 2(W-1)/W·P where buckets are
// large; small ones go to all at once, or over sockets between pairs, in fewer steps and more
// bytes. `update` says how buckets are cut, summed and sent. On devices tensors are padded.
// InvalidArgument: the tensors cannot be laid out.
absl::StatusOr<PredictedTraffic> PredictAllReduceTraffic(const v1::TablesSchema& schema,
                                                         const v1::UpdateSpec& update, int workers,
                                                         AllReduceWay way);

// The mean over the workers of PredictAllReduceTraffic, at no more cost for many of them than for
// two.
absl::StatusOr<WorkerTraffic> PredictMeanAllReduceTraffic(const v1::TablesSchema& schema,
                                                          const v1::UpdateSpec& update, int workers,
                                                          AllReduceWay way);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_TRAFFIC_PREDICTION_H_
