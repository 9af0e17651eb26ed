#ifndef MUSTER_CLIENT_COMPARE_PIPELINE_TRAFFIC_H_
#define MUSTER_CLIENT_COMPARE_PIPELINE_TRAFFIC_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/compare/worker_traffic.h"
#include "common/mesh/mesh.h"
#include "common/partition/local_tensors.h"
#include "common/partition/tensor_spec.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// These functions predict what the stages of a pipeline send one another in a step of training: for
// each micro-batch a virtual stage sends its output to the next group, and the gradient of its
// input to the one before. With p stages of v chunks, B sequences of T tokens a step, width C and b
// bytes of an activation, all stages together send 2 (p v - 1) B T C b bytes; ranks of a layer that
// share out the tokens divide this. All messages are exact, however micro-batches are cut.
//
// A tensor that two stages have, such as an embedding to which the head is tied, also costs each of
// them one exchange of the sums of its gradient in f32: 4 bytes of each element, or under ZeRO of
// each element of the rank's slice. On servers the last stage sends the first as much, one way.

// Returns the ranks of a stage, of those that compute a model together (kModelAxes).
std::vector<int> RanksOfStage(const Mesh& model, int stage);

// Returns the traffic of the workers of a stage, one data rank after another. `tensors`: the whole
// model's. Errors are LocalTensors' and DenseLayout's.
absl::StatusOr<std::vector<WorkerTraffic>> PredictStageTraffic(absl::Span<const TensorSpec> tensors,
                                                               const v1::JobSpec& spec,
                                                               const ModelDivision& division,
                                                               int stage);

// Returns the mean of PredictStageTraffic over the workers. Takes no longer for many data ranks
// than for two.
absl::StatusOr<WorkerTraffic> PredictMeanStageTraffic(absl::Span<const TensorSpec> tensors,
                                                      const v1::JobSpec& spec,
                                                      const ModelDivision& division, int stage);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_PIPELINE_TRAFFIC_H_
