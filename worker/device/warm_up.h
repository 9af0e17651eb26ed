#ifndef MUSTER_WORKER_DEVICE_WARM_UP_H_
#define MUSTER_WORKER_DEVICE_WARM_UP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/device/device_passes.h"
#include "worker/nn/layer.h"
#include "worker/nn/model.h"
#include "worker/nn/model_parameters.h"

namespace muster {

// Lets `passes` measure and capture (DevicePasses::WarmUp) forward and backward of `model`, which
// is made on it. The parameters should be such as training has: on zeros a device is faster than it
// will be. Graphs keep `seed`, which is training's. Gradients hold nothing in particular
// afterwards. Waits.
absl::Status WarmUp(DevicePasses& passes, const Model& model, uint64_t seed,
                    const ModelParameters& parameters, GradientSpans gradients);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_WARM_UP_H_
