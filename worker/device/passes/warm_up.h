#ifndef MUSTER_WORKER_DEVICE_PASSES_WARM_UP_H_
#define MUSTER_WORKER_DEVICE_PASSES_WARM_UP_H_

#include <vector>

#include "absl/status/status.h"
#include "worker/device/passes/device_passes.h"
#include "worker/nn/counting_group.h"
#include "worker/nn/expert_group.h"
#include "worker/nn/layer.h"
#include "worker/nn/model.h"
#include "worker/nn/model_parameters.h"
#include "worker/nn/tensor_group.h"

namespace muster {

// The part of a model's passes that a rank runs.
struct WarmUpPart {
  // The rank's place among tensor ranks, and whether these share out rows; among context ranks,
  // with their exchange; among those that share out experts, of which none gets a row; and among
  // those that count choices together. Groups are not called, so that ranks may warm up at
  // different times. Null: the rank is alone.
  const TensorGroup* tensor_group = nullptr;
  bool sequence_parallel = false;
  const ContextGroup* context_group = nullptr;
  ContextExchange context_exchange = ContextExchange::kRing;
  const ExpertGroup* expert_group = nullptr;
  const CountingGroup* counting_group = nullptr;
  // There is one for each chunk of the stage.
  std::vector<UnitRange> units = {UnitRange()};
  bool split_backward = false;
};

// Lets `passes` measure forward and backward of `model`, which is made on it, and load their code
// (DevicePasses::WarmUp). The parameters should be such as training has: on zeros a device is
// faster than it will be. Gradients hold nothing in particular afterwards. Waits.
absl::Status WarmUp(DevicePasses& passes, const Model& model, const ModelParameters& parameters,
                    GradientSpans gradients, const WarmUpPart& part);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_PASSES_WARM_UP_H_
