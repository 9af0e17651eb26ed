#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_PASSES_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_PASSES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/batch.h"
#include "worker/device/device_trainer.h"
#include "worker/runtime/training/micro_batch_source.h"
#include "worker/runtime/training/step_engine.h"

namespace muster {

// Begins a step and queues all its micro-batches. `batch` is memory for reuse. Adds this slot's
// examples and labels to `sums`; the loss is not known yet.
absl::Status QueueStep(DeviceTrainer& trainer, uint64_t clock, MicroBatchSource& micro_batches,
                       Batch& batch, StepSums& sums);

// Runs a forward pass for an evaluation.
absl::Status EvaluateOnDevice(DeviceTrainer& trainer, const Batch& batch, PassResult& result);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_PASSES_H_
