#ifndef MUSTER_WORKER_DEVICE_MEMORY_DEVICE_MEMORY_PLAN_H_
#define MUSTER_WORKER_DEVICE_MEMORY_DEVICE_MEMORY_PLAN_H_

#include "common/plan/device/device_memory_layout.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/memory/device_parameters.h"

namespace muster {

// Returns the request for the arrays of the first chunk's units in the largest micro-batch.
ActivationRequest DeviceActivations(const TransformerShape& shape,
                                    const DeviceComputeOptions& options);

// Returns what common/plan/device/device_memory_layout.h goes by, for this transformer. Where the
// options have several chunks, there are other_activations of the further ones, in order, and then
// of an evaluation of all.
DeviceExtents DeviceExtentsOf(const TransformerShape& shape, const DeviceParameters& parameters,
                              const DeviceComputeOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_MEMORY_DEVICE_MEMORY_PLAN_H_
