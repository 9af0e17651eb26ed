#ifndef MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_
#define MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_

#include <cstddef>

#include "common/plan/device_memory_layout.h"
#include "worker/device/device_options.h"
#include "worker/device/device_parameters.h"

namespace muster {

// common/plan/device_memory_layout.h's, of this transformer.
DeviceMemoryPlan PlanDeviceMemory(const TransformerShape& shape, const DeviceParameters& parameters,
                                  const DeviceComputeOptions& options, std::byte* base);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_
