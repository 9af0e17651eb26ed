#ifndef MUSTER_COMMON_PLAN_DEVICE_TRANSFORMER_DEVICE_PLAN_H_
#define MUSTER_COMMON_PLAN_DEVICE_TRANSFORMER_DEVICE_PLAN_H_

#include <cstdint>

#include "common/plan/device/device_memory_layout.h"
#include "common/plan/size/model_size.h"
#include "proto/job.pb.h"

namespace muster {

// The most that a stage keeps on its device at a time.
struct DeviceStageSize {
  // Micro-batches of one chunk between forward and backward (common/step/compute_order.h).
  uint64_t activation_stashes = 1;
  // Messages that it has memory for (PlannedStages).
  uint64_t messages = 0;
};

// What one task of a transformer's job has on its device (`compute { device: CUDA }`), for
// micro-batches of at most `sequences` whole sequences: the bytes of the block of memory that the
// engine takes, laid out by the same function. `model` is what the task's rank computes
// (SizeOfRank). REQUIRES: model.transformer.
DeviceMemoryBytes PlanDeviceBytes(const v1::JobSpec& spec, const ModelSize& model,
                                  uint64_t sequences, const DeviceStageSize& stage);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_DEVICE_TRANSFORMER_DEVICE_PLAN_H_
