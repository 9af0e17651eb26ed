#ifndef MUSTER_WORKER_NN_TRANSFORMER_COMPUTE_WEIGHTS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_COMPUTE_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/compute/ops.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"
#include "worker/nn/activation_arena.h"
#include "worker/nn/layer.h"
#include "worker/nn/layer_context.h"

namespace muster {

// The matrices of a model in the type that it computes in: those of f32 are the master weights
// themselves, those of 16 bits what came so (LayerContext::rounded_parameters) or copies, made once
// per unit and version of the parameters. Vectors are used in f32. Of one micro-batch; not
// thread-safe.
class ComputeWeights {
 public:
  // `copied[i]`: whether tensor i is computed with, in `type`. `tensors` outlives this.
  ComputeWeights(DType type, const std::vector<TensorSpec>& tensors,
                 const std::vector<bool>& copied);

  // Lays the copies out: for training all units' side by side, so that backward finds forward's;
  // otherwise one unit's over the other's.
  void Prepare(const LayerContext& context);

  // Makes the unit's copies, unless they are there for context.parameters_version.
  void BeforeUnit(Ops& ops, const LayerContext& context, int unit, ParameterSpans parameters);

  // REQUIRES: tensor is copied, and of the unit of the last BeforeUnit.
  const void* Get(int tensor) const {
    if (type_ == DType::kF32) return masters_[tensor].data();
    if (const void* came = Came(tensor); came != nullptr) return came;
    return arena_.At<std::byte>(offsets_[tensor]);
  }

 private:
  // Null: a copy is to be made.
  const void* Came(int tensor) const { return rounded_.empty() ? nullptr : rounded_[tensor]; }

  const DType type_;
  const std::vector<TensorSpec>& tensors_;
  const std::vector<bool> copied_;
  Pass pass_ = Pass::kEvaluation;
  bool prepared_ = false;
  // The weights in f32.
  ParameterSpans masters_;
  absl::Span<const void* const> rounded_;
  ActivationArena arena_;
  // By tensor.
  std::vector<size_t> offsets_;
  // By unit; 0: no copies.
  std::vector<uint64_t> versions_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_COMPUTE_WEIGHTS_H_
