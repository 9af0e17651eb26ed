#ifndef MUSTER_TESTS_RECOVERY_FLIPPING_MODEL_H_
#define MUSTER_TESTS_RECOVERY_FLIPPING_MODEL_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/nn/model.h"

namespace muster {

// A model whose kernels may err: does what another does, and then may flip one bit of the gradients
// that a unit's backward has left. For tests.
class FlippingModel final : public Model {
 public:
  // `flips` is asked after each backward of a unit in the step at `clock`.
  FlippingModel(std::unique_ptr<const Model> inner,
                std::function<bool(uint64_t clock, int unit)> flips)
      : inner_(std::move(inner)), flips_(std::move(flips)) {}

  const ModelDescription& description() const override { return inner_->description(); }
  std::unique_ptr<MicroBatch> NewMicroBatch() const override { return inner_->NewMicroBatch(); }
  const UnitBoundaries* boundaries() const override { return inner_->boundaries(); }
  absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const override {
    return inner_->Load(batch, micro_batch);
  }
  absl::Status Forward(const LayerContext& context, int unit, const ModelParameters& parameters,
                       MicroBatch& micro_batch) const override {
    return inner_->Forward(context, unit, parameters, micro_batch);
  }
  absl::Status TakeResults(MicroBatch& micro_batch) const override {
    return inner_->TakeResults(micro_batch);
  }
  absl::Status RunLastUnit(const LayerContext& context, const ModelParameters& parameters,
                           GradientSpans gradients, MicroBatch& micro_batch) const override {
    const absl::Status status = inner_->RunLastUnit(context, parameters, gradients, micro_batch);
    if (status.ok()) MayFlip(context, description().units - 1, gradients);
    return status;
  }
  absl::Status Backward(const LayerContext& context, int unit, const ModelParameters& parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    const absl::Status status = inner_->Backward(context, unit, parameters, gradients, micro_batch);
    if (status.ok()) MayFlip(context, unit, gradients);
    return status;
  }
  absl::Status BackwardInput(const LayerContext& context, int unit,
                             const ModelParameters& parameters, GradientSpans gradients,
                             MicroBatch& micro_batch) const override {
    return inner_->BackwardInput(context, unit, parameters, gradients, micro_batch);
  }
  absl::Status BackwardWeights(const LayerContext& context, int unit, GradientSpans gradients,
                               MicroBatch& micro_batch) const override {
    const absl::Status status = inner_->BackwardWeights(context, unit, gradients, micro_batch);
    if (status.ok()) MayFlip(context, unit, gradients);
    return status;
  }

 private:
  void MayFlip(const LayerContext& context, int unit, GradientSpans gradients) const {
    if (!flips_(context.clock, unit)) return;
    const std::vector<TensorSpec>& tensors = description().tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (static_cast<int>(tensors[i].unit) != unit || gradients[i].empty()) continue;
      uint32_t bits;
      float& value = gradients[i][gradients[i].size() / 2];
      std::memcpy(&bits, &value, sizeof(bits));
      bits ^= 1u << 12;
      std::memcpy(&value, &bits, sizeof(bits));
      return;
    }
  }

  const std::unique_ptr<const Model> inner_;
  const std::function<bool(uint64_t clock, int unit)> flips_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_RECOVERY_FLIPPING_MODEL_H_
