#include "worker/device/device_memory_plan.h"

#include "common/device/arena_plan.h"
#include "common/kernels/device/device_sizes.h"
#include "worker/nn/transformer/transformer_memory.h"

namespace muster {
namespace {

static_assert(sizeof(DropoutClock) <= kDeviceRecordBytes);
static_assert(sizeof(DeviceHeadSums) <= kDeviceRecordBytes);
static_assert(sizeof(GradientControl) <= kDeviceRecordBytes);
static_assert(2 * sizeof(DeviceAdamStep) <= kDeviceRecordBytes);

}  // namespace

DeviceBatchOffsets DeviceBatchOffsetsOf(int64_t tokens) {
  ArenaPlan plan;
  DeviceBatchOffsets offsets;
  offsets.tokens = plan.Add(tokens * sizeof(int32_t));
  offsets.labels = plan.Add(tokens * sizeof(int32_t));
  offsets.token_order = plan.Add(TokenOrderSize(tokens) * sizeof(int32_t));
  offsets.clock = plan.Add(sizeof(DropoutClock));
  return offsets;
}

size_t DeviceBatchBytes(int64_t tokens) {
  return DeviceBatchOffsetsOf(tokens).clock + sizeof(DropoutClock);
}

DeviceMemoryPlan PlanDeviceMemory(const TransformerShape& shape, const DeviceParameters& parameters,
                                  const DeviceComputeOptions& options, std::byte* base) {
  DeviceExtents extents;
  ActivationRequest& activations = extents.activations;
  activations = ActivationRequestOf(shape, options.type, options.recompute);
  activations.placement = kOnDevice;
  activations.N = options.rows().count();
  activations.logits = options.logits;
  activations.logit_rows = options.head_rows;
  extents.parameters = parameters.elements();
  if (shape.positions == TransformerShape::Positions::kRotary) {
    extents.rotary = shape.context * shape.head_dim();
  }
  extents.optimizer_here = options.optimizer == OptimizerPlace::kDevice;
  extents.workspace_bytes = options.workspace_bytes;
  return PlanDeviceMemory(extents, base);
}

}  // namespace muster
