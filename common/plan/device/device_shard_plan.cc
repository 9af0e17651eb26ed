#include "common/plan/device/device_shard_plan.h"

#include <cstdint>

#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/ranks/sharded_memory.h"

namespace muster {
namespace {

// Copies begin on cache lines (worker/nn/low_precision_copies.h).
constexpr uint64_t kLineBytes = 64;

// Returns the type in which a tensor's elements are gathered: a tied tensor's are its owner's.
DType GatheredAs(absl::Span<const TensorSpec> tensors, const TensorSpec& tensor) {
  for (const TensorSpec& owner : tensors) {
    if (owner.name == tensor.tied_to) return owner.compute;
  }
  return tensor.compute;
}

}  // namespace

std::vector<TensorSpec> TensorsReadOnDevices(absl::Span<const TensorSpec> tensors, DType type) {
  std::vector<TensorSpec> read(tensors.begin(), tensors.end());
  for (TensorSpec& tensor : read) {
    if (tensor.shape.size() == 1) tensor.compute = type;
  }
  return read;
}

absl::StatusOr<DeviceShardExtents> PlanDeviceShard(const v1::JobSpec& spec, uint32_t shards,
                                                   absl::Span<const TensorSpec> tensors,
                                                   DType type) {
  MUSTER_ASSIGN_OR_RETURN(const ShardedMemory memory,
                          PlanShardedMemory(tensors, {.stage = ZeroStage(spec),
                                                      .shards = shards,
                                                      .replicas = SizeAlong(kCopyAxes, spec),
                                                      .expert_ranks = SizeAlong(kExpertAxes, spec),
                                                      .kept_bytes = KeptGatheredBytes(spec)}));
  DeviceShardExtents shard;
  shard.weights = memory.weight_slices / sizeof(float);
  shard.sums = memory.gradient_sums / sizeof(float);
  shard.moments = memory.stepped_elements;
  shard.gathered_bytes = memory.gathered_weights;
  shard.gradient_bytes = memory.gradients;
  const std::vector<TensorSpec> read = TensorsReadOnDevices(tensors, type);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (read[i].compute == DType::kF32 || GatheredAs(tensors, tensors[i]) != DType::kF32) continue;
    shard.copies_bytes += RoundUp(read[i].elements() * SizeOf(read[i].compute), kLineBytes);
  }
  return shard;
}

}  // namespace muster
