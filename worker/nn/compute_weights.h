#ifndef MUSTER_WORKER_NN_COMPUTE_WEIGHTS_H_
#define MUSTER_WORKER_NN_COMPUTE_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/bfloat16.h"
#include "worker/nn/activation_arena.h"
#include "worker/nn/layer.h"
#include "worker/nn/layer_context.h"

namespace muster {

// The matrices of a model in the type that it computes in: those of f32 are the master weights
// themselves, those of 16 bits what came so (LayerContext::rounded_parameters) or copies, made once
// per unit and version of the parameters. Vectors are used in f32. Of one micro-batch; not
// thread-safe. T is float, BFloat16 or Float16.
template <typename T>
class ComputeWeights {
 public:
  // `copied[i]`: whether tensor i is computed with. `tensors` outlives this.
  ComputeWeights(const std::vector<TensorSpec>& tensors, const std::vector<bool>& copied);

  // Lays the copies out: for training all units' side by side, so that backward finds forward's;
  // otherwise one unit's over the other's.
  void Prepare(const LayerContext& context);

  // Makes the unit's copies, unless they are there for context.parameters_version.
  void BeforeUnit(const LayerContext& context, int unit, ParameterSpans parameters);

  // REQUIRES: tensor is copied, and of the unit of the last BeforeUnit.
  const T* Get(int tensor) const {
    if (const T* came = Came(tensor); came != nullptr) return came;
    return arena_.At<T>(offsets_[tensor]);
  }

 private:
  // Null: a copy is to be made.
  const T* Came(int tensor) const {
    return rounded_.empty() ? nullptr : static_cast<const T*>(rounded_[tensor]);
  }

  const std::vector<TensorSpec>& tensors_;
  const std::vector<bool> copied_;
  Pass pass_ = Pass::kEvaluation;
  bool prepared_ = false;
  absl::Span<const void* const> rounded_;
  ActivationArena arena_;
  // By tensor.
  std::vector<size_t> offsets_;
  // By unit; 0: no copies.
  std::vector<uint64_t> versions_;
};

template <>
class ComputeWeights<float> {
 public:
  ComputeWeights(const std::vector<TensorSpec>& tensors, const std::vector<bool>& copied) {}
  void Prepare(const LayerContext& context) {}
  void BeforeUnit(const LayerContext& context, int unit, ParameterSpans parameters) {
    parameters_ = parameters;
  }
  const float* Get(int tensor) const { return parameters_[tensor].data(); }

 private:
  ParameterSpans parameters_;
};

extern template class ComputeWeights<BFloat16>;
extern template class ComputeWeights<Float16>;

}  // namespace muster

#endif  // MUSTER_WORKER_NN_COMPUTE_WEIGHTS_H_
