#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_JOB_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_JOB_H_

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/device/device_trainer.h"

namespace muster {

namespace v1 {
class JobSpec;
class TablesSchema;
}  // namespace v1

// How a job is computed on device number `device` of this process, with weights that somebody else
// steps. `schema` is the job's. InvalidArgument: the specification asks for what no device does, or
// does not fit the data (names the field).
absl::StatusOr<DeviceTrainerOptions> DeviceOptionsFor(const v1::JobSpec& spec,
                                                      const DatasetInfo& data, int device);

// The same with weights that the device steps: adam or adamw, and clipping, as `schema` says.
absl::StatusOr<DeviceTrainerOptions> ResidentDeviceOptionsFor(const v1::JobSpec& spec,
                                                              const DatasetInfo& data,
                                                              const v1::TablesSchema& schema,
                                                              int device);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_JOB_H_
