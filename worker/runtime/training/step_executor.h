#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STEP_EXECUTOR_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STEP_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/pass.h"
#include "common/kernels/accumulation.h"
#include "common/step/action.h"
#include "common/step/stage_shape.h"
#include "common/step/step_plan.h"
#include "worker/data/batch.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/model.h"
#include "worker/nn/tensor_group.h"
#include "worker/runtime/training/stage_links.h"
#include "worker/runtime/training/step_check.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/strategy/strategy.h"
#include "worker/strategy/verified_step.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// A step engine that executes the actions of common/step/step_plan.h: runs a model's units, on
// processors or on a device as the model is made for, and calls the strategy's hooks around each.
// Keeps as many activation stashes as the plan of a step uses.
class StepExecutor final : public StepEngine {
 public:
  struct Options {
    // The ranks that compute the model together with this one, which outlive the executor; null:
    // this rank alone. The model is then made for that number of ranks.
    TensorGroup* tensor_group = nullptr;
    ContextGroup* context_group = nullptr;
    // The ranks that share out experts with this one; null: it has all experts.
    ExpertGroup* expert_group = nullptr;
    // The data ranks that count choices of experts together with this one; null: it alone.
    CountingGroup* counting_group = nullptr;
    // The stage whose units alone the executor runs; absent: that of all units. With several
    // stages also the links by which it exchanges with others what units hand one another. All
    // stages read the same micro-batches; that with the last unit has loss and results. Then the
    // model has boundaries() and no rows, and where the order is kInterleaved or kZeroBubble, units
    // of the strategy do not share memory for gradients.
    absl::optional<ModelStage> stage;
    std::shared_ptr<StageLinks> links;
  };

  // The model and the strategy outlive the executor.
  StepExecutor(const v1::JobSpec& spec, const Model& model, Strategy& strategy)
      : StepExecutor(spec, model, strategy, Options()) {}
  StepExecutor(const v1::JobSpec& spec, const Model& model, Strategy& strategy,
               const Options& options);

  int64_t most_examples() const override;
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override;
  absl::Status TrainVerified(uint64_t clock, MicroBatchSource& micro_batches, StepCheck& check,
                             StepSums& sums) override;
  absl::Status BeginEvaluation(uint64_t clock) override;
  absl::Status Evaluate(const Batch& batch, PassOutput output, PassResult& result) override;

 private:
  // Makes the plan of steps of so many micro-batches, and the activation stashes that it uses.
  void Plan(int micro_batches);
  bool has_peers() const { return stage_.shape.stages > 1; }
  LayerContext ContextOf(Pass pass, uint64_t clock) const;
  // Returns a micro-batch of the step, which it reads unless that has happened.
  absl::StatusOr<const Batch*> BatchOf(uint64_t clock, int micro_batch, MicroBatchSource& source);
  absl::Status Load(const Batch& batch, const StepAction& action, MicroBatch& micro_batch,
                    StepSums& sums);
  // Returns how the action leaves the unit's gradients. Where backward passes of micro-batches
  // overlap, the strategy answers for the one that began last; the first writes in any case.
  Accumulation StoreOf(const StepAction& action) const;
  // Queues a message with another stage; `batch` is the micro-batch's.
  absl::Status Transfer(const StepAction& action, const LayerContext& context, const Batch& batch,
                        MicroBatch& micro_batch);
  // Takes what another stage has sent.
  absl::Status Await(const StepAction& action, const LayerContext& context,
                     MicroBatch& micro_batch);
  // Executes the plan with the present strategy.
  absl::Status RunStep(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums);
  // Returns `diverged`, or keeps it until the step's gradients are known to be right.
  absl::Status Found(absl::Status diverged);
  // Executes any other action but kLoad and kCheckLoss.
  absl::Status Execute(const StepAction& action, LayerContext context, MicroBatch& micro_batch);
  // Moves what backward of a unit has added.
  static void TakeRouters(MicroBatch& micro_batch, StepSums& sums);
  absl::Status CheckLoss(uint64_t clock, MicroBatch& micro_batch, StepSums& sums);
  // Adds the squared norm of the gradients of a unit, which are those of the first micro-batch.
  void Measure(int unit, float loss_scale, const MicroBatch& micro_batch, StepSums& sums) const;
  absl::Status CheckGradients(int unit, uint64_t clock) const;
  absl::Status CheckRowGradients(uint64_t clock, const MicroBatch& micro_batch) const;

  const Model& model_;
  Strategy& own_strategy_;
  // The one that the present step uses: `own_strategy_`, or `verified_` before it.
  Strategy* strategy_;
  // Null before the first step that is verified.
  std::unique_ptr<VerifiedStep> verified_;
  // The first loss or gradient of a verified step that is not finite.
  absl::Status diverged_;
  TensorGroup* const tensor_group_;
  ContextGroup* const context_group_;
  ExpertGroup* const expert_group_;
  CountingGroup* const counting_group_;
  const ContextExchange context_exchange_;
  const std::shared_ptr<StageLinks> links_;
  const uint64_t seed_;
  const bool divides_tokens_;
  // True if all gradients of the model are this rank's.
  const bool has_all_gradients_;
  // The micro-batches are those of plan_.
  ModelStage stage_;
  const StepTraits traits_;
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
