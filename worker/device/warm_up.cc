#include "worker/device/warm_up.h"

#include <memory>

#include "common/base/status_macros.h"
#include "worker/nn/layer_context.h"

namespace muster {

absl::Status WarmUp(DevicePasses& passes, const Model& model, const ModelParameters& parameters,
                    GradientSpans gradients) {
  const std::unique_ptr<MicroBatch> m = model.NewMicroBatch();
  const int last_unit = model.description().units - 1;
  return passes.WarmUp([&](const Batch& batch) -> absl::Status {
    const LayerContext context;
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
