#ifndef MUSTER_WORKER_RUNTIME_TRAINING_LAYER_STEP_ENGINE_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_LAYER_STEP_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "worker/nn/loss_scaler.h"
#include "worker/nn/model.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/runtime/training/step_plan.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// A step engine that computes a model's layers on this machine's processors. It executes the
// actions of step_plan.h and calls the strategy's hooks around each unit.
class LayerStepEngine final : public StepEngine {
 public:
  struct Options {
    // Named in log lines.
    uint32_t slot = 0;
    // Writes one line to the job's log.
    std::function<void(absl::string_view)> log = [](absl::string_view) {};
  };

  // The model and the strategy outlive the engine.
  LayerStepEngine(const v1::JobSpec& spec, const Model& model, Strategy& strategy, Options options);

  int64_t most_examples() const override;
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override;
  absl::Status BeginEvaluation(uint64_t clock) override;
  absl::Status Evaluate(const Batch& batch, PassResult& result) override;
  LossScaler* loss_scaler() override { return loss_scaler_.has_value() ? &*loss_scaler_ : nullptr; }

 private:
  absl::Status Execute(const StepAction& action, uint64_t clock, MicroBatchSource& micro_batches,
                       StepSums& sums);
  absl::Status CheckLoss(uint64_t clock, StepSums& sums);
  // Divides the gradients by the loss scale or, if they overflowed, takes this slot's part back.
  absl::Status UnscaleGradients(uint64_t clock);
  absl::Status CheckGradients(int unit, uint64_t clock) const;
  absl::Status CheckRowGradients(uint64_t clock) const;

  const Model& model_;
  Strategy& strategy_;
  const Options options_;
  const uint64_t seed_;
  absl::optional<LossScaler> loss_scaler_;
  StepShape shape_;
  std::vector<StepAction> plan_;
  const std::vector<StepAction> evaluation_plan_;
  const std::unique_ptr<MicroBatch> micro_batch_;
  const std::unique_ptr<MicroBatch> evaluated_;
  uint64_t evaluation_clock_ = 0;
  Batch batch_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_LAYER_STEP_ENGINE_H_
