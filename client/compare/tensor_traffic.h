#ifndef MUSTER_CLIENT_COMPARE_TENSOR_TRAFFIC_H_
#define MUSTER_CLIENT_COMPARE_TENSOR_TRAFFIC_H_

#include <vector>

#include "absl/types/span.h"
#include "client/compare/call_bytes.h"
#include "client/compare/worker_traffic.h"
#include "common/partition/local_tensors.h"
#include "common/partition/tensor_spec.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Predict what the ranks of tensor groups send one another in a step of training, with all the
// job's workers of one stage. `tensors` are the shares
// of the stage's first tensor rank (LocalTensors). With t ranks, B sequences of T tokens, width C
// and b bytes of an activation, a rank of a transformer sends
//
//   a block, forward and backward     8 (t-1)/t · B T C b: four sums, in large all-reduces
//     with tokens divided            10 (t-1)/t · B T C b: six gathers and four scatters
//     with recompute FULL             2 (t-1)/t · B T C b more, or 3 with tokens divided
//     with backward split             2 (t-1)/t · B T C b more with tokens divided: products'
//                                     operands are gathered again for the gradients of weights
//   head's input and its gradient     2 (t-1)/t · B T C b; of these with tokens whole the gradient
//                                     alone, in an all-reduce
//   embedding, in f32                 2 (t-1)/t · B T C · 4
//   loss                              (t-1) · B T · 12: three floats a token
//   gradients of shared elements      2 (t-1)/t · 4 bytes of each: norms with tokens divided, and
//                                     key-value heads that ranks have in common; in each
//                                     micro-batch, if it sends its gradients
//
// and of a perceptron, for each pair of layers, an all-reduce of the second one's outputs and,
// except for the first pair, of the gradient of the first one's inputs.

// Returns each worker's traffic, one data rank after another: zeros without tensor parallelism.
std::vector<WorkerTraffic> PredictTensorTraffic(absl::Span<const TensorSpec> tensors,
                                                const v1::JobSpec& spec,
                                                const ModelDivision& division, int stage,
                                                AllReduceWay way);

// Returns the mean of PredictTensorTraffic over the workers. Takes no longer for many data ranks
// than for two.
WorkerTraffic PredictMeanTensorTraffic(absl::Span<const TensorSpec> tensors,
                                       const v1::JobSpec& spec, const ModelDivision& division,
                                       int stage, AllReduceWay way);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_TENSOR_TRAFFIC_H_
