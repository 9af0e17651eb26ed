#include "worker/device/memory/device_memory_plan.h"

#include <cstddef>

#include "common/base/pass.h"
#include "common/kernels/device/device_optimizer.h"
#include "common/kernels/transformer/head_sums.h"
#include "worker/device/memory/device_batches.h"
#include "worker/nn/transformer/arrays/transformer_memory.h"
#include "worker/nn/transformer/arrays/transformer_tensors.h"

namespace muster {

static_assert(sizeof(DeviceBatchRecord) <= kDeviceRecordBytes);
static_assert(sizeof(HeadSums) <= kDeviceRecordBytes);
static_assert(sizeof(GradientControl) <= kDeviceRecordBytes);
static_assert(2 * sizeof(DeviceAdamStep) <= kDeviceRecordBytes);

ActivationRequest DeviceActivations(const TransformerShape& shape,
                                    const DeviceComputeOptions& options) {
  ActivationRequest activations =
      ActivationRequestOf(ShapeOfRank(shape, options.mesh), options.type, options.recompute);
  activations.tensor_ranks = options.mesh.size(Axis::kTensor);
  activations.sequence_parallel = options.sequence_parallel;
  activations.context_ranks = options.mesh.size(kContext);
  activations.context_exchange = options.context_exchange;
  activations.expert_ranks = options.mesh.size(kExpertAxes);
  SetUnits(shape.layers, options.chunks[0], activations);
  activations.split_backward = options.split_backward;
  activations.placement = kOnDevice;
  activations.N = options.rows().count();
  activations.count_runs = activations.experts.Runs(options.rows().sequences);
  const uint64_t parts =
      activations.experts.Parts(options.rows().sequences, activations.context_ranks,
                                options.sequence_parallel ? activations.tensor_ranks : 1);
  activations.choice_counts = parts == 0 ? 0 : parts + options.counting_ranks;
  return activations;
}

DeviceExtents DeviceExtentsOf(const TransformerShape& shape, const DeviceParameters& parameters,
                              const DeviceComputeOptions& options) {
  DeviceExtents extents;
  extents.activations = DeviceActivations(shape, options);
  const std::vector<UnitRange> units = options.array_units();
  for (size_t i = 1; i < units.size(); ++i) {
    ActivationRequest& other = extents.other_activations.emplace_back(extents.activations);
    SetUnits(shape.layers, units[i], other);
    if (i == options.chunks.size()) other.pass = Pass::kEvaluation;
  }
  extents.activation_stashes = options.activation_stashes;
  extents.messages = options.messages;
  extents.parameters = parameters.elements();
  extents.shard = options.shard;
  if (shape.positions == TransformerShape::Positions::kRotary) {
    extents.rotary = shape.context * shape.head_dim();
  }
  extents.optimizer_here = options.optimizer == OptimizerPlace::kDevice;
  return extents;
}

}  // namespace muster
