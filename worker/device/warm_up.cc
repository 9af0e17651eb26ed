#include "worker/device/warm_up.h"

#include <cstdint>
#include <memory>

#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/tensor/dtype.h"
#include "worker/nn/tensor_group.h"

namespace muster {
namespace {

// A rank's place in a tensor group, without the calls.
class PlaceInGroup final : public TensorGroup {
 public:
  explicit PlaceInGroup(const TensorGroup& group) : size_(group.size()), rank_(group.rank()) {}

  int size() const override { return size_; }
  int rank() const override { return rank_; }
  void Gather(DType, int64_t, const void*, void*) override {}
  void ScatterSums(DType, int64_t, void*, void*) override {}
  void Sum(DType, int64_t, void*) override {}
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const int size_;
  const int rank_;
};

}  // namespace

absl::Status WarmUp(DevicePasses& passes, const Model& model, const ModelParameters& parameters,
                    GradientSpans gradients, const LayerContext& training) {
  LayerContext context;
  absl::optional<PlaceInGroup> group;
  if (training.tensor_group != nullptr) {
    context.tensor_group = &group.emplace(*training.tensor_group);
    context.sequence_parallel = training.sequence_parallel;
  }
  const std::unique_ptr<MicroBatch> m = model.NewMicroBatch();
  const int last_unit = model.description().units - 1;
  return passes.WarmUp([&](const Batch& batch) -> absl::Status {
    MUSTER_RETURN_IF_ERROR(model.Load(batch, *m));
    for (int unit = 0; unit < last_unit; ++unit) {
      MUSTER_RETURN_IF_ERROR(model.Forward(context, unit, parameters, *m));
    }
    MUSTER_RETURN_IF_ERROR(model.RunLastUnit(context, parameters, gradients, *m));
    for (int unit = last_unit - 1; unit >= 0; --unit) {
      MUSTER_RETURN_IF_ERROR(model.Backward(context, unit, parameters, gradients, *m));
    }
    return absl::OkStatus();
  });
}

}  // namespace muster
