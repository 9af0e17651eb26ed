#ifndef MUSTER_WORKER_PARALLEL_RANKS_OF_A_MODEL_FOR_TESTING_H_
#define MUSTER_WORKER_PARALLEL_RANKS_OF_A_MODEL_FOR_TESTING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/compute/transformer_activations.h"
#include "common/mesh/mesh.h"
#include "common/tensor/dtype.h"
#include "worker/data/batch.h"
#include "worker/nn/model.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// Heads of GPT-2's kind, with a padded vocabulary and dropout everywhere.
TransformerShape Gpt2ForTesting(int64_t context);

// Grouped heads, of which there are fewer than tensor ranks where there are four or eight, which
// are wider together than the model; biases of attention alone, norms of heads, and a window.
TransformerShape LlamaForTesting(int64_t context);

// The latter without these, with experts in the second block, and a shared one with a gate.
TransformerShape ExpertsForTesting(int64_t context, int64_t experts = 5);

// Returns the first, second or third of these.
TransformerShape ShapeForTesting(int which, int64_t context);

// Returns random sequences, some of whose tokens have no label.
Batch RandomBatch(const TransformerShape& shape, int64_t sequences);

// Returns the transformer of one rank of the mesh.
std::unique_ptr<const Model> TransformerOf(const TransformerShape& shape, const Mesh& mesh,
                                           DType type, Recompute recompute);

// Returns how far apart, norm-wise, the same sums in two orders may be.
double BoundOf(DType type);

// The way in which ranks compute a model together.
struct WayOfRanks {
  // Tensor and context ranks, and experts that the latter share out.
  Mesh mesh;
  bool sequence_parallel = false;
  ContextExchange exchange = ContextExchange::kRing;
  bool split_backward = false;
};

// Expects each of the ranks, which are threads, to get the loss of one rank alone, and all together
// its gradients, up to `bound`. `model_of` makes the model of a rank of a mesh.
void ExpectResultsOfOneRank(
    const std::function<std::unique_ptr<const Model>(const Mesh& mesh)>& model_of,
    const WayOfRanks& way, const Batch& batch, double bound);

// Lets the last rank die, as by SIGKILL, at its call number `call` in its expert group, or in its
// context group where ranks share out no experts, and returns the statuses of the others; none if
// it makes fewer calls.
std::vector<absl::Status> StatusesAfterDeath(
    const std::function<std::unique_ptr<const Model>(const Mesh& mesh)>& model_of,
    const WayOfRanks& way, const Batch& batch, int call);

}  // namespace muster

#endif  // MUSTER_WORKER_PARALLEL_RANKS_OF_A_MODEL_FOR_TESTING_H_
