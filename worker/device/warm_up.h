#ifndef MUSTER_WORKER_DEVICE_WARM_UP_H_
#define MUSTER_WORKER_DEVICE_WARM_UP_H_

#include "absl/status/status.h"
#include "worker/device/device_passes.h"
#include "worker/nn/layer.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/model.h"
#include "worker/nn/model_parameters.h"

namespace muster {

// Lets `passes` measure forward and backward of `model`, which is made on it, and load their code
// (DevicePasses::WarmUp). The parameters should be such as training has: on zeros a device is
// faster than it will be. Gradients hold nothing in particular afterwards. Of `training` only the
// tensor group and its way to divide rows count; the group is not called, so that ranks may warm up
// at different times. Waits.
absl::Status WarmUp(DevicePasses& passes, const Model& model, const ModelParameters& parameters,
                    GradientSpans gradients, const LayerContext& training);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_WARM_UP_H_
