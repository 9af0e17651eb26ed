#ifndef MUSTER_TESTS_BENCHMARKS_TRAIN_STEPPER_H_
#define MUSTER_TESTS_BENCHMARKS_TRAIN_STEPPER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"
#include "worker/strategy/local_strategy.h"

namespace muster {

// One process's training steps, as a worker makes them but for reading the data: forward, backward
// and optimizer of a job, over batches that are there already, in turn. Computes on the calling
// thread's ComputeThreads(). Not thread-safe.
class TrainStepper {
 public:
  // Errors of CreateModel and of the job's optimizer. REQUIRES: a batch.
  static absl::StatusOr<std::unique_ptr<TrainStepper>> Create(const v1::JobSpec& spec,
                                                              const DatasetInfo& data,
                                                              std::vector<Batch> batches);

  absl::Status Step();

  // Mean of the last step.
  double loss() const;
  const Model& model() const { return *model_; }

 private:
  TrainStepper(std::unique_ptr<const Model> model, std::unique_ptr<LocalStrategy> strategy,
               std::vector<Batch> batches);

  const std::unique_ptr<const Model> model_;
  const std::unique_ptr<LocalStrategy> strategy_;
  const std::vector<Batch> batches_;
  const std::unique_ptr<MicroBatch> micro_batch_;
  uint64_t clock_ = 0;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_TRAIN_STEPPER_H_
