#include "worker/runtime/device/device_passes.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace muster {

absl::Status QueueStep(DeviceTrainer& trainer, uint64_t clock, MicroBatchSource& micro_batches,
                       Batch& batch, StepSums& sums) {
  MUSTER_RETURN_IF_ERROR(trainer.BeginStep(clock));
  for (int m = 0; m < micro_batches.count(); ++m) {
    MUSTER_RETURN_IF_ERROR(micro_batches.Read(clock, m, batch));
    sums.examples += batch.examples;
    sums.loss_weight += std::count_if(batch.labels.begin(), batch.labels.end(),
                                      [](int32_t label) { return label >= 0; });
    const SeriesPosition position =
        m + 1 == micro_batches.count() ? SeriesPosition::kLast : SeriesPosition::kMoreFollow;
    MUSTER_RETURN_IF_ERROR(trainer.AddMicroBatch(batch, micro_batches.first_example(m), position));
  }
  return absl::OkStatus();
}

absl::Status EvaluateOnDevice(DeviceTrainer& trainer, const Batch& batch, PassResult& result) {
  MUSTER_ASSIGN_OR_RETURN(const DeviceStepResult sums, trainer.Evaluate(batch));
  result = {.examples = batch.examples,
            .loss_weight = sums.tokens,
            .loss_sum = sums.loss_sum,
            .correct = sums.correct,
            .scores = {},
            .labels = {}};
  return absl::OkStatus();
}

}  // namespace muster
