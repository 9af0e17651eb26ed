#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STEP_EXECUTOR_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STEP_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/pass.h"
#include "common/kernels/accumulation.h"
#include "worker/data/batch.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/model.h"
#include "worker/nn/tensor_group.h"
#include "worker/runtime/training/pipeline_links.h"
#include "worker/runtime/training/stage_plan.h"
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
    // The stage of a pipeline whose units alone the executor runs, and the links by which it
    // exchanges with other stages what units hand one another. All stages
    // read the same micro-batches; that with the last unit has loss and results. Then the model has
    // boundaries() and no rows, and the plan is StageStepPlan. Where the order is kInterleaved or
    // kZeroBubble, units of the strategy do not share memory for gradients.
    absl::optional<PipelineStage> stage;
    std::shared_ptr<PipelineLinks> links;
  };

  // The model and the strategy outlive the executor.
  StepExecutor(const v1::JobSpec& spec, const Model& model, Strategy& strategy)
      : StepExecutor(spec, model, strategy, Options()) {}
  StepExecutor(const v1::JobSpec& spec, const Model& model, Strategy& strategy,
               const Options& options);

  int64_t most_examples() const override;
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override;
  absl::Status BeginEvaluation(uint64_t clock) override;
  absl::Status Evaluate(const Batch& batch, PassOutput output, PassResult& result) override;

 private:
  // Makes the plan of steps of so many micro-batches, and the saved sets that it uses.
  void Plan(int micro_batches);
  LayerContext ContextOf(Pass pass, uint64_t clock) const;
  // Returns a micro-batch of the step, which it reads unless that has happened.
  absl::StatusOr<const Batch*> BatchOf(uint64_t clock, int micro_batch, MicroBatchSource& source);
  absl::Status Load(const Batch& batch, const StepAction& action, MicroBatch& micro_batch,
                    StepSums& sums);
  // Returns how the action leaves the unit's gradients. Where backward passes of micro-batches
  // overlap, the strategy answers for the one that began last; the first writes in any case.
  Accumulation StoreOf(const StepAction& action) const;
  // Executes a part of an exchange with another stage; `batch` is the micro-batch's.
  absl::Status Exchange(const StepAction& action, const LayerContext& context, const Batch& batch,
                        MicroBatch& micro_batch);
  // Executes any other action but kLoad and kCheckLoss.
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
  // The step's micro-batches by number, modulo the length: one, if each is loaded once it is read.
  std::vector<Batch> read_;
  // The numbers of the step's micro-batches that were read, and that were loaded.
  int batches_read_ = 0;
  int batches_loaded_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STEP_EXECUTOR_H_
