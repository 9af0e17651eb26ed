#ifndef MUSTER_COMMON_PLAN_DEVICE_DEVICE_SHARD_PLAN_H_
#define MUSTER_COMMON_PLAN_DEVICE_DEVICE_SHARD_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "common/plan/device/device_memory_layout.h"
#include "common/tensor/dtype.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Returns a transformer's tensors with the types in which a device reads them: as processors do,
// except that vectors are read in `type`, too, which is how products take their biases.
std::vector<TensorSpec> TensorsReadOnDevices(absl::Span<const TensorSpec> tensors, DType type);

// Returns what a rank has on its device of a transformer that computes in `type` and whose
// parameters `shards` ranks divide as the job says. InvalidArgument: the tensors cannot be laid
// out. REQUIRES: the job has a ZeRO stage (common/mesh/job_mesh.h).
absl::StatusOr<DeviceShardExtents> PlanDeviceShard(const v1::JobSpec& spec, uint32_t shards,
                                                   absl::Span<const TensorSpec> tensors,
                                                   DType type);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_DEVICE_DEVICE_SHARD_PLAN_H_
