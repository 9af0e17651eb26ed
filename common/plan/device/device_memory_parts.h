#ifndef MUSTER_COMMON_PLAN_DEVICE_DEVICE_MEMORY_PARTS_H_
#define MUSTER_COMMON_PLAN_DEVICE_DEVICE_MEMORY_PARTS_H_

#include <vector>

#include "common/plan/device/transformer_device_plan.h"
#include "common/plan/size/memory_part.h"
#include "common/plan/size/model_size.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Returns what a job takes of each worker's device: `bytes`, which the engine lays out there
// (PlanDeviceBytes), and what CUDA and NCCL take for themselves. `model` is what a rank
// computes (SizeOfRank). REQUIRES: model.transformer.
std::vector<MemoryPart> DeviceMemoryParts(const v1::JobSpec& spec, const ModelSize& model,
                                          const DeviceMemoryBytes& bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_DEVICE_DEVICE_MEMORY_PARTS_H_
