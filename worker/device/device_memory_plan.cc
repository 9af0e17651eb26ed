#include "worker/device/device_memory_plan.h"

#include "common/kernels/device/device_optimizer.h"
#include "common/kernels/transformer/head_sums.h"
#include "worker/device/device_batches.h"
#include "worker/nn/transformer/transformer_memory.h"
#include "worker/nn/transformer/transformer_tensors.h"

namespace muster {

static_assert(sizeof(DeviceBatchRecord) <= kDeviceRecordBytes);
static_assert(sizeof(HeadSums) <= kDeviceRecordBytes);
static_assert(sizeof(GradientControl) <= kDeviceRecordBytes);
static_assert(2 * sizeof(DeviceAdamStep) <= kDeviceRecordBytes);

DeviceExtents DeviceExtentsOf(const TransformerShape& shape, const DeviceParameters& parameters,
                              const DeviceComputeOptions& options) {
  DeviceExtents extents;
  ActivationRequest& activations = extents.activations;
  const int ranks = options.tensor_ranks;
  activations = ActivationRequestOf(ranks == 1 ? shape : ShapeOfRank(shape, ranks), options.type,
                                    options.recompute);
  activations.tensor_ranks = ranks;
  activations.sequence_parallel = options.sequence_parallel;
  SetUnits(shape.layers, options.units, activations);
  activations.split_backward = options.split_backward;
  activations.placement = kOnDevice;
  extents.saved_sets = options.saved_sets;
  activations.N = options.rows().count();
  extents.parameters = parameters.elements();
  extents.shard = options.shard;
  if (shape.positions == TransformerShape::Positions::kRotary) {
    extents.rotary = shape.context * shape.head_dim();
  }
  extents.optimizer_here = options.optimizer == OptimizerPlace::kDevice;
  return extents;
}

}  // namespace muster
