#ifndef MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_
#define MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "common/kernels/device/device_cross_entropy.h"
#include "common/kernels/device/device_dropout.h"
#include "common/kernels/device/device_optimizer.h"
#include "common/plan/device_memory_layout.h"
#include "worker/device/device_options.h"
#include "worker/device/device_parameters.h"

namespace muster {

// Bytes of DeviceBatchArrays, one behind the other, each aligned.
size_t DeviceBatchBytes(int64_t tokens);
// Where those four begin.
struct DeviceBatchOffsets {
  size_t tokens = 0;
  size_t labels = 0;
  size_t token_order = 0;
  size_t clock = 0;
};
DeviceBatchOffsets DeviceBatchOffsetsOf(int64_t tokens);

// common/plan/device_memory_layout.h's, of this transformer.
DeviceMemoryPlan PlanDeviceMemory(const TransformerShape& shape, const DeviceParameters& parameters,
                                  const DeviceComputeOptions& options, std::byte* base);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_
