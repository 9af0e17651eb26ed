#ifndef MUSTER_WORKER_NN_TRANSFORMER_COMPUTE_CONTEXT_H_
#define MUSTER_WORKER_NN_TRANSFORMER_COMPUTE_CONTEXT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/base/pass.h"
#include "common/compute/ops.h"
#include "common/kernels/accumulation.h"
#include "common/tensor/dtype.h"
#include "worker/nn/transformer/transformer_arrays.h"

namespace muster {

// The collaborators of a transformer's layers besides their arrays; passed to every call. Arrays,
// and what the pointers here name, lie in the memory of the ops.
struct ComputeContext {
  Ops& ops;
  // T of transformer_arrays.h.
  DType type = DType::kF32;
  TokenRows rows;
  Pass pass = Pass::kTraining;
  // Key dropout. The clock is null only where nothing is dropped.
  uint64_t seed = 0;
  const DropoutClock* clock = nullptr;
  // LayerContext::loss_scale; null: 1.
  const float* loss_scale = nullptr;
  // The way in which backward leaves the gradients of parameters.
  Accumulation gradients = Accumulation::kAdd;
  // True if the arrays are those of ActivationRequest::split_backward: the gradients of products'
  // weights are made apart from the rest of backward.
  bool split_backward = false;
};

// Returns the dropout of the arrays that `name` keys; none in an evaluation.
inline OpDropout DropoutOf(const ComputeContext& context, absl::string_view name,
                           float probability) {
  if (probability == 0 || context.pass != Pass::kTraining) return {};
  // The clock is not the mask's but context.clock.
  return DropoutOf(DropoutMask(context.seed, name, /*clock=*/0, probability), context.clock);
}

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_COMPUTE_CONTEXT_H_
