#ifndef MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_ARRAYS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_ARRAYS_H_

#include <cstdint>

namespace muster {

// Arrays that a transformer's layers are called with. All are row-major and dense; N = B T tokens,
// C is the width, Q the columns of queries, keys and values, F the feed-forward width, U the
// columns of its first matrix (F, or 2 F for SwiGLU), H the query heads. T is the type of
// computation (ComputeContext::type), f32, bf16 or f16: that of matrices and of what enters and
// leaves products. The residual stream, vectors of parameters, and all gradients of parameters are
// f32.

// The tokens of one micro-batch: B sequences of T tokens, row b T + t being token t of sequence b.
struct TokenRows {
  int64_t sequences = 0;  // B
  int64_t length = 0;     // T

  int64_t count() const { return sequences * length; }  // N
};

struct NormWeights {
  const float* gain = nullptr;
  const float* bias = nullptr;  // null: none
};

struct LinearWeights {
  const void* weight = nullptr;  // T [out, in]
  const void* bias = nullptr;    // [out], of the type that OpsTraits::bias says; null: none
};

struct BlockWeights {
  NormWeights norm1;
  LinearWeights qkv;
  LinearWeights proj;
  NormWeights norm2;
  LinearWeights up;
  LinearWeights down;
};

// Written or added to (ComputeContext::gradients); bias is null where the layer has none.
struct LayerGradients {
  float* weight = nullptr;
  float* bias = nullptr;
};

struct BlockGradients {
  LayerGradients norm1;
  LayerGradients qkv;
  LayerGradients proj;
  LayerGradients norm2;
  LayerGradients up;
  LayerGradients down;
};

// The residual stream between two layers, as sum + dropout(branch), so that the addition is made
// by the next norm. `branch` may be null.
struct ResidualStream {
  const float* sum = nullptr;    // [N, C]
  const void* branch = nullptr;  // T [N, C]
};

// What a norm of the residual stream keeps for its backward pass.
struct NormActivations {
  float* sum = nullptr;   // [N, C]
  float* mean = nullptr;  // [N]
  float* rstd = nullptr;  // [N]
};

// What one block's forward pass writes and its backward pass reads. Blocks may share those that
// recomputation makes again.
struct BlockActivations {
  NormActivations norm1;
  void* norm1_out = nullptr;   // T [N, C]
  void* qkv = nullptr;         // T [N, Q], turned
  void* attention = nullptr;   // T [N, C]
  float* logsumexp = nullptr;  // [B, H, T]
  NormActivations norm2;
  void* norm2_out = nullptr;  // T [N, C]
  void* up = nullptr;         // T [N, U], before the activation function
  void* activated = nullptr;  // T [N, F]
};

// One for all blocks of a micro-batch.
struct BlockScratch {
  // T [N, C]. Forward: the branch that a block leaves. Backward: its gradient, on the way in and
  // out; unless that is the stream's (see ResidualNorm).
  void* branch = nullptr;
  // Overwritten by Backward; Forward does not use them.
  void* inner = nullptr;  // T [N, max(F, C)]
  void* wide = nullptr;   // T [N, max(Q, U)]
};

// What forward leaves out and backward makes again first, to the same bits.
enum class Recompute {
  kNone,
  // All but matrix products: norms' outputs, attention, the activation function.
  kSelective,
  // All but each layer unit's input.
  kFull,
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_ARRAYS_H_
