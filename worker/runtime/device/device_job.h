#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_JOB_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_JOB_H_

#include "absl/status/statusor.h"
#include "common/step/stage_shape.h"
#include "worker/data/dataset.h"
#include "worker/device/memory/device_options.h"

namespace muster {

namespace v1 {
class JobSpec;
class TablesSchema;
}  // namespace v1

// Returns how to compute a job on device number `device` of this process when the optimizer runs
// elsewhere. InvalidArgument, naming the field: the specification asks for something that devices
// do not do, or does not fit the data.
absl::StatusOr<DeviceOptions> DeviceOptionsFor(const v1::JobSpec& spec, const DatasetInfo& data,
                                               int device);

// Returns the same for a job whose weights the device steps, with the optimizer (adam or adamw) and
// the clipping of `schema`, which is the job's.
absl::StatusOr<DeviceOptions> ResidentDeviceOptionsFor(const v1::JobSpec& spec,
                                                       const DatasetInfo& data,
                                                       const v1::TablesSchema& schema, int device);

// Makes options of a whole model those of a stage: its chunks' units, and as many activation
// stashes and messages as its order needs.
void TakeStage(const ModelStage& stage, DeviceComputeOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_JOB_H_
