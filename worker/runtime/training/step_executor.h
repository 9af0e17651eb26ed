#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STEP_EXECUTOR_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STEP_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/pass.h"
#include "worker/data/batch.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/model.h"
#include "worker/nn/tensor_group.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/runtime/training/step_plan.h"
#include "worker/strategy/strategy.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// A step engine that executes the actions of step_plan.h: runs a model's units, on processors or on
// a device as the model is made for, and calls the strategy's hooks around each. Keeps as many
// saved sets as the plan of a step uses.
class StepExecutor final : public StepEngine {
 public:
  // Makes the plan of a step; a pure function. Plans differ in the order of actions and in the
  // saved sets alone, and keep the order that strategy.h asks for: backward passes of two
  // micro-batches do not overlap.
  using MakePlan = std::function<std::vector<StepAction>(const StepShape& shape)>;

  struct Options {
    MakePlan make_plan = TrainingStepPlan;
    // The ranks that compute the model together with this one, which outlive the executor; null:
    // this rank alone. The model is then made for that number of ranks.
    TensorGroup* tensor_group = nullptr;
  };

  // The model and the strategy outlive the executor.
  StepExecutor(const v1::JobSpec& spec, const Model& model, Strategy& strategy)
      : StepExecutor(spec, model, strategy, Options()) {}
  StepExecutor(const v1::JobSpec& spec, const Model& model, Strategy& strategy,
               const Options& options);

  int64_t most_examples() const override;
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override;
  absl::Status BeginEvaluation(uint64_t clock) override;
  absl::Status Evaluate(const Batch& batch, PassResult& result) override;

 private:
  // Makes the plan of steps of so many micro-batches, and the saved sets that it uses.
  void Plan(int micro_batches);
  LayerContext ContextOf(Pass pass, uint64_t clock) const;
  // Executes any action but kLoad and kCheckLoss.
  absl::Status Execute(const StepAction& action, LayerContext context, MicroBatch& micro_batch);
  absl::Status CheckLoss(uint64_t clock, MicroBatch& micro_batch, StepSums& sums) const;
  absl::Status CheckGradients(int unit, uint64_t clock) const;
  absl::Status CheckRowGradients(uint64_t clock, const MicroBatch& micro_batch) const;

  const Model& model_;
  Strategy& strategy_;
  const Options options_;
  const uint64_t seed_;
  const bool divides_tokens_;
  StepShape shape_;
  std::vector<StepAction> plan_;
  const std::vector<StepAction> evaluation_plan_;
  // By StepAction::saved.
  std::vector<std::unique_ptr<MicroBatch>> saved_;
  const std::unique_ptr<MicroBatch> evaluated_;
  uint64_t evaluation_clock_ = 0;
  // Memory that kLoad reads into.
  Batch read_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STEP_EXECUTOR_H_
