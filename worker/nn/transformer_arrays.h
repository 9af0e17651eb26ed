#ifndef MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// Arrays that a transformer's layers are called with. All are row-major and dense; N = B T tokens,
// C is the width, Q the columns of queries, keys and values, F the feed-forward width, U the
// columns of its first matrix (F, or 2 F for SwiGLU), H the query heads. T is float, BFloat16 or
// Float16: the type of matrices and of what enters and leaves products. The residual stream,
// vectors of parameters, and all gradients of parameters are f32.

// The tokens of one micro-batch: B sequences of T tokens, row b T + t being token t of sequence b.
struct TokenRows {
  int64_t sequences = 0;  // B
  int64_t length = 0;     // T
  // Place of the first sequence in the step's joined batch, which dropout goes by.
  uint64_t first_example = 0;

  int64_t count() const { return sequences * length; }  // N
};

struct NormWeights {
  const float* gain = nullptr;
  const float* bias = nullptr;  // null: none
};

template <typename T>
struct LinearWeights {
  const T* weight = nullptr;    // [out, in]
  const float* bias = nullptr;  // [out]; null: none
};

template <typename T>
struct BlockWeights {
  NormWeights norm1;
  LinearWeights<T> qkv;
  LinearWeights<T> proj;
  NormWeights norm2;
  LinearWeights<T> up;
  LinearWeights<T> down;
};

// Written or added to (LayerContext::gradients); bias is null where the layer has none.
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
template <typename T>
struct ResidualStream {
  const float* sum = nullptr;  // [N, C]
  const T* branch = nullptr;   // [N, C]
};

// What a norm of the residual stream keeps for its backward pass.
struct NormActivations {
  float* sum = nullptr;   // [N, C]
  float* mean = nullptr;  // [N]
  float* rstd = nullptr;  // [N]
};

// What one block's forward pass writes and its backward pass reads. Blocks may share those that
// recomputation makes again.
template <typename T>
struct BlockActivations {
  NormActivations norm1;
  T* norm1_out = nullptr;      // [N, C]
  T* qkv = nullptr;            // [N, Q], turned
  T* attention = nullptr;      // [N, C]
  float* logsumexp = nullptr;  // [B, H, T]
  NormActivations norm2;
  T* norm2_out = nullptr;  // [N, C]
  T* up = nullptr;         // [N, U], before the activation function
  T* activated = nullptr;  // [N, F]
};

// One for all blocks of a micro-batch.
template <typename T>
struct BlockScratch {
  // [N, C]. Forward: the branch that a block leaves. Backward: its gradient, on the way in and out;
  // unless that is the stream's (see ResidualNorm).
  T* branch = nullptr;
  // Overwritten by Backward; Forward does not use them.
  T* inner = nullptr;  // [N, max(F, C)]
  T* wide = nullptr;   // [N, max(Q, U)]
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

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_H_
