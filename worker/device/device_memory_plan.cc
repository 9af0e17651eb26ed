#include "worker/device/device_memory_plan.h"

#include "common/device/arena_plan.h"
#include "common/kernels/device/device_sizes.h"

namespace muster {
namespace {

static_assert(sizeof(DropoutClock) <= kDeviceRecordBytes);
static_assert(sizeof(DeviceHeadSums) <= kDeviceRecordBytes);
static_assert(sizeof(GradientControl) <= kDeviceRecordBytes);
static_assert(2 * sizeof(DeviceAdamStep) <= kDeviceRecordBytes);

DeviceExtents::Kept KeptBy(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return DeviceExtents::Kept::kAll;
    case Recompute::kSelective:
      return DeviceExtents::Kept::kProducts;
    case Recompute::kFull:
      return DeviceExtents::Kept::kInput;
  }
  return DeviceExtents::Kept::kAll;
}

// But for the parameters.
DeviceExtents ExtentsOf(const TransformerShape& shape, const DeviceComputeOptions& options) {
  DeviceExtents extents;
  extents.layers = shape.layers;
  extents.N = options.rows().count();
  extents.C = shape.width;
  extents.H = shape.heads;
  extents.Q = shape.qkv_width();
  extents.U = shape.up_width();
  extents.F = shape.feed_forward;
  extents.V = shape.vocabulary_rows();
  if (shape.positions == TransformerShape::Positions::kRotary) {
    extents.rotary = shape.context * shape.head_dim();
  }
  extents.type = options.type;
  extents.logits = options.logits;
  extents.head_rows = options.head_rows;
  extents.kept = KeptBy(options.recompute);
  extents.optimizer_here = options.optimizer == OptimizerPlace::kDevice;
  extents.workspace_bytes = options.workspace_bytes;
  return extents;
}

}  // namespace

int64_t HeadRows(const TransformerShape& shape, const DeviceComputeOptions& options) {
  return HeadRows(ExtentsOf(shape, options));
}

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
  DeviceExtents extents = ExtentsOf(shape, options);
  extents.parameters = parameters.elements();
  return PlanDeviceMemory(extents, base);
}

}  // namespace muster
