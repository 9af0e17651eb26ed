#ifndef MUSTER_WORKER_NN_LAYER_CONTEXT_H_
#define MUSTER_WORKER_NN_LAYER_CONTEXT_H_

#include <cstdint>

#include "common/base/pass.h"
#include "common/compute/transformer_activations.h"
#include "common/kernels/accumulation.h"

namespace muster {

class ContextGroup;
class CountingGroup;
class ExpertGroup;
class TensorGroup;

// What a layer may use besides its spans; passed to every call, so that there is no process-wide
// state.
struct LayerContext {
  Pass pass = Pass::kTraining;
  // For counter-based randomness (dropout).
  uint64_t seed = 0;
  uint64_t clock = 0;
  // Place of the micro-batch's first example in the step's joined batch, whoever computes it.
  uint64_t first_example = 0;
  // What the loss is multiplied by before its gradients are taken, in forward (of the last unit)
  // and backward alike; a power of two. Models that compute in f16 need it, so that small gradients
  // are not lost; gradients come out multiplied. Losses that are reported are not.
  float loss_scale = 1;
  // How backward leaves the gradients of parameters.
  Accumulation gradients = Accumulation::kAdd;
  // The ranks that compute the model together (tensor parallelism); null: this rank alone.
  TensorGroup* tensor_group = nullptr;
  // True if they share out rows where no rank needs all of them.
  bool sequence_parallel = false;
  // The ranks that share out the tokens of every sequence (context parallelism), and how each comes
  // by the others' keys and values; null: this rank has whole sequences. Each loads whole sequences
  // and computes its share of them. Loss and results are those of all.
  ContextGroup* context_group = nullptr;
  ContextExchange context_exchange = ContextExchange::kRing;
  // The ranks that share out the experts of each layer; null: this rank has all of them.
  ExpertGroup* expert_group = nullptr;
  // The data ranks whose choices of experts are counted together with this one's; null: they are
  // counted by data rank.
  CountingGroup* counting_group = nullptr;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYER_CONTEXT_H_
