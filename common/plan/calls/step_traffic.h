#ifndef MUSTER_COMMON_PLAN_CALLS_STEP_TRAFFIC_H_
#define MUSTER_COMMON_PLAN_CALLS_STEP_TRAFFIC_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/calls/call_bytes.h"
#include "common/plan/calls/job_calls.h"

namespace muster {

namespace v1 {
class JobSpec;
class PartitionPlacement;
class TablesSchema;
}  // namespace v1

// Payload bytes of a step's dense parameters and, with tensor parallelism or a pipeline, of its
// activations, summed over the calls that are recorded of it (job_calls.h). They follow from the
// job and its layout alone. Rows of sparse tables are left out, since they depend on the data, and
// so are the few bytes by which ranks agree on the step. The tables of
// docs/parallelism.md say what they come to.

// Payload bytes of a worker's step by the mesh's axes; on the road of servers `data` is what it
// exchanges with them.
struct AxisTraffic {
  WorkerTraffic data;
  WorkerTraffic tensor;
  WorkerTraffic pipeline;

  WorkerTraffic total() const;
  AxisTraffic& operator+=(const AxisTraffic& other);
  friend AxisTraffic operator*(const AxisTraffic& traffic, double factor);
};

// Each worker's traffic, by slot.
struct PredictedTraffic {
  // Under all-reduce, workers differ if they do not own equal parts of a bucket or slice.
  std::vector<WorkerTraffic> workers;
  // The parts of it within tensor groups and between stages.
  std::vector<WorkerTraffic> tensor;
  std::vector<WorkerTraffic> pipeline;
  // Bytes of parameters that each server sends, by id; empty on the all-reduce road.
  std::map<std::string, double> server_sent;
};

// Predicts the parameter-server road. `partitions` is the shard map. InvalidArgument: the tensors
// cannot be laid out, or ranks cannot divide them.
absl::StatusOr<PredictedTraffic> PredictServerTraffic(
    const v1::TablesSchema& schema, absl::Span<const v1::PartitionPlacement* const> partitions,
    const v1::JobSpec& spec, AllReduceWay way);

// Predicts the all-reduce road. Errors are the same.
absl::StatusOr<PredictedTraffic> PredictAllReduceTraffic(const v1::TablesSchema& schema,
                                                         const v1::JobSpec& spec, AllReduceWay way);

// Returns the mean over the workers of each stage, by axis; one entry without a pipeline. Takes no
// longer for many data ranks, or micro-batches, than for a few. Errors are the same.
absl::StatusOr<std::vector<AxisTraffic>> PredictMeanTraffic(const v1::TablesSchema& schema,
                                                            const v1::JobSpec& spec, CallRoad road,
                                                            AllReduceWay way);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_CALLS_STEP_TRAFFIC_H_
