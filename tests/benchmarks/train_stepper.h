#ifndef MUSTER_TESTS_BENCHMARKS_TRAIN_STEPPER_H_
#define MUSTER_TESTS_BENCHMARKS_TRAIN_STEPPER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"
#include "worker/runtime/training/micro_batch_source.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/strategy/local_strategy_for_testing.h"

namespace muster {

// Batches that are there already, one a step, in turn.
class BatchesInTurn final : public MicroBatchSource {
 public:
  // REQUIRES: a batch.
  explicit BatchesInTurn(std::vector<Batch> batches) : batches_(std::move(batches)) {}

  int Count(uint64_t) const override { return 1; }
  uint64_t FirstExample(uint64_t, int) const override { return 0; }
  absl::Status Read(uint64_t clock, int micro_batch, Batch& batch) override;

 private:
  std::vector<Batch> batches_;
  // Where the one that is out belongs.
  Batch* last_ = nullptr;
};

// One process's training steps, as a worker makes them but for reading the data: forward, backward
// and optimizer of a job. Computes on the calling thread's ComputeThreads(). Not thread-safe.
class TrainStepper {
 public:
  // Errors of CreateModel and of the job's optimizer. REQUIRES: a batch.
  static absl::StatusOr<std::unique_ptr<TrainStepper>> Create(const v1::JobSpec& spec,
                                                              const DatasetInfo& data,
                                                              std::vector<Batch> batches);

  absl::Status Step();

  // Mean of the last step.
  double loss() const { return sums_.loss_sum / static_cast<double>(sums_.loss_weight); }

 private:
  TrainStepper(const v1::JobSpec& spec, std::unique_ptr<const Model> model,
               std::unique_ptr<LocalStrategy> strategy, std::vector<Batch> batches);

  const std::unique_ptr<const Model> model_;
  const std::unique_ptr<LocalStrategy> strategy_;
  BatchesInTurn batches_;
  StepExecutor engine_;
  StepSums sums_;
  uint64_t clock_ = 0;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_TRAIN_STEPPER_H_
