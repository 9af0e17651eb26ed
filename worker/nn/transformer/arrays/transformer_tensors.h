#ifndef MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_TENSORS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_TENSORS_H_

#include <array>
#include <vector>

#include "common/mesh/mesh.h"
#include "common/partition/tensor_spec.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// Index of a tensor that the shape does not have.
inline constexpr int kNoTensor = -1;

// Indices of the weight and bias of one layer.
struct LayerTensors {
  int weight = kNoTensor;
  int bias = kNoTensor;
};

// Indices of an adapter's matrices.
struct AdapterTensors {
  int down = kNoTensor;
  int up = kNoTensor;
};

// Of block l, "blockL." before the names.
struct BlockTensors {
  LayerTensors norm1;  // norm1.weight [C], norm1.bias
  LayerTensors qkv;    // qkv.weight [(H + 2 K) D, C]: rows of queries, then keys, then values
  // With norms of queries and keys: query_norm.weight and key_norm.weight, [D] or [H D] and [K D].
  int query_norm = kNoTensor;
  int key_norm = kNoTensor;
  LayerTensors proj;   // proj.weight [C, H D]
  LayerTensors norm2;  // norm2.weight [C], norm2.bias
  // up.weight [F, C]; SwiGLU: [2 F, C], rows of the gate first. In a block of experts these are
  // the shared expert's, shared.up.weight and shared.down.weight, if there is one.
  LayerTensors up;
  LayerTensors down;  // down.weight [C, F]
  // A block of experts has these. Rows of one expert, like those of up and down, precede the
  // next's.
  int router = kNoTensor;       // router.weight [E, C]
  int router_bias = kNoTensor;  // router.bias [E]: TensorSpec::sign_rate moves it
  int expert_up = kNoTensor;    // experts.up.weight [E F', C], or [2 E F', C]
  int expert_down = kNoTensor;  // experts.down.weight [E C, F']
  int shared_gate = kNoTensor;  // shared_gate.weight [1, C]
  // They are by AdapterTarget, under the target's name: adapter.down [r, in], adapter.up [out, r].
  std::array<AdapterTensors, kAdapterTargets> adapters;

  // Returns those that products multiply with; some may be kNoTensor.
  std::vector<int> Matrices() const {
    std::vector<int> matrices = {qkv.weight, proj.weight, up.weight,   down.weight,
                                 router,     expert_up,   expert_down, shared_gate};
    for (const AdapterTensors& adapter : adapters) {
      matrices.insert(matrices.end(), {adapter.down, adapter.up});
    }
    return matrices;
  }
};

// A transformer's dense tensors, and where in the list each of them is. C is the width, H and K are
// the query and key-value heads, D their width, F the feed-forward width, V the rows of the
// vocabulary, padding included; linear weights are [out, in]. RMSNorm has no bias, nor has the
// head.
//
// Initial values are GPT-2's: normal with deviation 0.02, that of proj and down (which end in the
// residual) divided by sqrt(2 layers); norms are 1, biases 0. Weight decay is for matrices alone.
//
// Adapters begin with `up` 0, so that they add nothing, and `down` uniform in ±1 / sqrt(in).
//
// Tensor ranks divide queries, keys and values by heads, gate and up each by rows, proj and down by
// columns, embedding and head by rows. Norms are replicated, and so is what belongs to experts, of
// whose tokens each rank has its own; norms of heads are common to ranks, of whose heads each has
// its own; biases of proj and down, and positions, are the first rank's. Of an adapter they divide
// the side of its layer that they divide, and have the other matrix in common, each with a part of
// its gradient.
struct TransformerTensors {
  std::vector<TensorSpec> specs;
  int embedding = kNoTensor;  // embedding.weight [V, C]
  int positions = kNoTensor;  // positions.weight [context, C]
  std::vector<BlockTensors> blocks;
  LayerTensors norm;     // norm.weight, norm.bias
  int head = kNoTensor;  // head.weight [V, C]; tied to embedding.weight unless it has its own
};

// Returns the shape of what each rank of a mesh computes. Of several tensor ranks, its tensors are
// the rank's shares of MakeTransformerTensors(shape): its heads, its part of the feed-forward
// width, and its rows of the vocabulary, all of which count as tokens. REQUIRES: the tensors can be
// divided (LocalTensors).
TransformerShape ShapeOfRank(const TransformerShape& shape, const Mesh& mesh);

// A pure function. Units: 0 is the embedding, 1 + l is block l, the last is norm and head.
TransformerTensors MakeTransformerTensors(const TransformerShape& shape);

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_TENSORS_H_
