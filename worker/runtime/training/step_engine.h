#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STEP_ENGINE_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STEP_ENGINE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/data/batch.h"
#include "worker/nn/loss_scaler.h"
#include "worker/runtime/training/micro_batch_source.h"

namespace muster {

// This slot's part of a step, summed over its micro-batches.
struct StepSums {
  double loss_sum = 0;
  // What loss_sum is divided by for the mean: MicroBatch::loss_weight.
  uint64_t loss_weight = 0;
  uint64_t examples = 0;
};

// What a forward pass over a batch came to.
struct PassResult {
  int64_t examples = 0;
  int64_t loss_weight = 0;
  double loss_sum = 0;
  int64_t correct = 0;
  // As MicroBatch has them; there until the next call.
  absl::Span<const float> scores;
  absl::Span<const int32_t> labels;
};

// How a slot computes: steps of training, and passes of evaluation between them. The trainer
// decides what comes when; how parameters are kept is TrainingState's. Used by one thread, the
// trainer's; after an error only destruction is allowed.
class StepEngine {
 public:
  virtual ~StepEngine() = default;

  // Most examples of one batch.
  virtual int64_t most_examples() const = 0;

  // The step at `clock`, whole: reads its micro-batches, computes them, and closes the clock. Adds
  // to `sums`. OutOfRange: the loss or a gradient became infinite or no number; nothing of the step
  // was closed. Otherwise errors of the data, of the computation and of what moves gradients and
  // parameters (strategy.h).
  virtual absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) = 0;

  // Evaluations come next, with the parameters of `clock`.
  virtual absl::Status BeginEvaluation(uint64_t clock) = 0;
  // A forward pass without dropout. OutOfRange is the caller's to find in the loss.
  virtual absl::Status Evaluate(const Batch& batch, PassResult& result) = 0;

  // Of jobs that compute in f16; null for the others.
  virtual LossScaler* loss_scaler() = 0;
};

// The error of a step that came to what is not finite.
absl::Status DivergedError(uint64_t clock, absl::string_view what);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STEP_ENGINE_H_
