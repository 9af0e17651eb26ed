#ifndef MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_
#define MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_

#include "common/plan/device_memory_layout.h"
#include "worker/device/device_options.h"
#include "worker/device/device_parameters.h"

namespace muster {

// Returns what common/plan/device_memory_layout.h goes by, for this transformer.
DeviceExtents DeviceExtentsOf(const TransformerShape& shape, const DeviceParameters& parameters,
                              const DeviceComputeOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_
