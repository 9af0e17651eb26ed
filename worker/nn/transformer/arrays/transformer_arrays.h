#ifndef MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_ARRAYS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_ARRAYS_H_

#include <array>
#include <cstdint>

#include "common/compute/transformer_activations.h"
#include "common/job/adapter_targets.h"
#include "common/kernels/transformer/dropout.h"
#include "worker/nn/residual_stream.h"

namespace muster {

// The other arrays that a transformer's layers are called with, and those of
// common/compute/transformer_activations.h, where letters are explained. The type T is
// ComputeContext::type, that of matrices and of what enters and leaves products. The residual
// stream, vectors of parameters, and all gradients of parameters are f32.

// The tokens of one micro-batch: B sequences of T tokens, row b T + t being token t of sequence b,
// at position first_position + t or, where documents share sequences, token_positions[row].
// Where context ranks share out sequences, T and rows are this rank's.
struct TokenRows {
  int64_t sequences = 0;  // B
  int64_t length = 0;     // T
  // The rows' places in whole sequences; of no length if they are whole.
  SequenceShare share;
  int64_t first_position = 0;
  // AttentionShape::token_positions, in the memory of the ops; null: sequences are one document.
  const int32_t* token_positions = nullptr;
  // The same of whole sequences, where context ranks share them out.
  const int32_t* whole_positions = nullptr;

  int64_t count() const { return sequences * length; }  // N
  int64_t whole_length() const { return share.whole > 0 ? share.whole : length; }
};

struct NormWeights {
  const float* gain = nullptr;
  const float* bias = nullptr;  // null: none
};

struct LinearWeights {
  const void* weight = nullptr;  // T [out, in]
  const void* bias = nullptr;    // [out], of the type that OpsTraits::bias says; null: none
};

// The weights of a block of experts, T.
struct ExpertWeights {
  const void* router = nullptr;  // [E, C]
  // f32 [E]; null: none.
  const float* router_bias = nullptr;
  const void* up = nullptr;           // [E, U', C]
  const void* down = nullptr;         // [E, C, F']
  const void* shared_gate = nullptr;  // [C]
};

// The gains of the norms of queries and of keys; null: none.
struct QueryKeyWeights {
  const float* queries = nullptr;
  const float* keys = nullptr;
};

// An adapter's weights, T: down [r, in], up [out, r].
struct AdapterWeights {
  const void* down = nullptr;
  const void* up = nullptr;
};

struct BlockWeights {
  NormWeights norm1;
  LinearWeights qkv;
  QueryKeyWeights query_key;
  LinearWeights proj;
  NormWeights norm2;
  // In a block of experts, the shared expert's.
  LinearWeights up;
  LinearWeights down;
  ExpertWeights experts;
  // They are by AdapterTarget.
  std::array<AdapterWeights, kAdapterTargets> adapters;
};

// Written or added to (ComputeContext::gradients). Null where the layer has no such tensor, or
// where it is frozen: the gradient is then not made.
struct LayerGradients {
  float* weight = nullptr;
  float* bias = nullptr;
};

struct ExpertGradients {
  float* router = nullptr;
  // Where loads are above their mean; null: nowhere.
  float* router_bias = nullptr;
  float* up = nullptr;
  float* down = nullptr;
  float* shared_gate = nullptr;
};

struct QueryKeyGradients {
  float* queries = nullptr;
  float* keys = nullptr;
};

struct AdapterGradients {
  float* down = nullptr;
  float* up = nullptr;
};

struct BlockGradients {
  LayerGradients norm1;
  LayerGradients qkv;
  QueryKeyGradients query_key;
  LayerGradients proj;
  LayerGradients norm2;
  LayerGradients up;
  LayerGradients down;
  ExpertGradients experts;
  // They are by AdapterTarget.
  std::array<AdapterGradients, kAdapterTargets> adapters;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_ARRAYS_H_
