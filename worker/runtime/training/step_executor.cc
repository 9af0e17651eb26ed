#include "worker/runtime/training/step_executor.h"

#include <cmath>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/step/stage_spec.h"
#include "common/tables/squared_norm.h"
#include "common/trace/trace_scope.h"
#include "proto/job.pb.h"
#include "worker/nn/diverged_error.h"

namespace muster {
namespace {

StageMessage MessageOf(const StepAction& action) {
  return {.gradient = action.of_gradient(), .unit = action.unit, .micro_batch = action.micro_batch};
}

// Returns whether the action is the last that adds to the gradients of its unit.
bool CompletesGradients(ActionKind kind) {
  return kind == ActionKind::kLastUnit || kind == ActionKind::kBackward ||
         kind == ActionKind::kBackwardWeights;
}

bool AreFinite(absl::Span<const float> values) { return AllFinite(values.size(), values.data()); }

}  // namespace

StepExecutor::StepExecutor(const v1::JobSpec& spec, const Model& model, Strategy& strategy,
                           const Options& options)
    : model_(model),
      own_strategy_(strategy),
      strategy_(&strategy),
      tensor_group_(options.tensor_group),
      context_group_(options.context_group),
      expert_group_(options.expert_group),
      counting_group_(options.counting_group),
      context_exchange_(ContextExchangeOf(spec)),
      links_(options.links),
      seed_(spec.seed()),
      divides_tokens_(DividesTokens(spec)),
      has_all_gradients_(SizeAlong(kModelAxes, spec) == 1 && options.expert_group == nullptr &&
                         !model.description().on_device &&
                         model.description().sparse_tables.empty()),
      stage_(options.stage.value_or(ModelStage{.sizes = {model.description().units}})),
      traits_(TraitsOfJob(spec, !model.description().sparse_tables.empty(),
                          model.description().on_device)),
      evaluation_plan_(EvaluationPlan(stage_, traits_.has_rows)),
      evaluated_(model.NewMicroBatch()) {
  evaluated_->units = stage_.UnitsOf(0, stage_.shape.chunks - 1);
}

int64_t StepExecutor::most_examples() const { return model_.description().most_examples; }

void StepExecutor::Plan(int micro_batches) {
  stage_.shape.micro_batches = micro_batches;
  plan_ = TrainingStepPlan(stage_, traits_);
  read_.resize(has_peers() ? micro_batches : 1);
  for (const StepAction& action : plan_) {
    while (saved_.size() <= static_cast<size_t>(action.saved)) {
      saved_.push_back(model_.NewMicroBatch());
    }
    if (action.kind == ActionKind::kBackwardInput) {
      saved_[action.saved]->split_backward = true;
    }
  }
}

LayerContext StepExecutor::ContextOf(Pass pass, uint64_t clock) const {
  return {.pass = pass,
          .seed = seed_,
          .clock = clock,
          .tensor_group = tensor_group_,
          .sequence_parallel = divides_tokens_,
          .context_group = context_group_,
          .context_exchange = context_exchange_,
          .expert_group = expert_group_,
          .counting_group = counting_group_};
}

absl::Status StepExecutor::Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) {
  return RunStep(clock, micro_batches, sums);
}

absl::Status StepExecutor::TrainVerified(uint64_t clock, MicroBatchSource& micro_batches,
                                         StepCheck& check, StepSums& sums) {
  if (verified_ == nullptr) {
    verified_ = std::make_unique<VerifiedStep>(own_strategy_, model_.description().tensors,
                                               traits_.sends_micro_batches);
  }
  strategy_ = verified_.get();
  const absl::Cleanup restore = [this] { strategy_ = &own_strategy_; };
  diverged_ = absl::OkStatus();
  verified_->Begin(VerifiedStep::Share::kOwn);
  MUSTER_RETURN_IF_ERROR(RunStep(clock, micro_batches, sums));
  const absl::Status diverged = diverged_;
  const auto recompute = [&](MicroBatchSource& others) -> absl::StatusOr<uint64_t> {
    StepSums unused;
    verified_->Begin(VerifiedStep::Share::kAnother);
    MUSTER_RETURN_IF_ERROR(RunStep(clock, others, unused));
    return verified_->Fingerprint();
  };
  MUSTER_RETURN_IF_ERROR(check.Check(clock, verified_->Fingerprint(), recompute));
  MUSTER_RETURN_IF_ERROR(diverged);
  return verified_->Send();
}

absl::Status StepExecutor::Found(absl::Status diverged) {
  if (strategy_ == &own_strategy_) return diverged;
  diverged_.Update(diverged);
  return absl::OkStatus();
}

absl::Status StepExecutor::RunStep(uint64_t clock, MicroBatchSource& micro_batches,
                                   StepSums& sums) {
  if (const int count = micro_batches.Count(clock);
      plan_.empty() || stage_.shape.micro_batches != count) {
    Plan(count);
  }
  LayerContext context = ContextOf(Pass::kTraining, clock);
  batches_read_ = batches_loaded_ = 0;
  for (size_t i = 0; i < plan_.size(); ++i) {
    const StepAction& action = plan_[i];
    const TraceScope trace(action.kind, static_cast<uint32_t>(action.unit));
    MicroBatch& micro_batch = *saved_[action.saved];
    context.loss_scale = strategy_->loss_scale();
    context.first_example = micro_batches.FirstExample(clock, action.micro_batch);
    if (action.kind == ActionKind::kCheckLoss) {
      MUSTER_RETURN_IF_ERROR(CheckLoss(clock, micro_batch, sums));
    } else if (action.kind == ActionKind::kLoad || action.transfers()) {
      MUSTER_ASSIGN_OR_RETURN(const Batch* const batch,
                              BatchOf(clock, action.micro_batch, micro_batches));
      MUSTER_RETURN_IF_ERROR(action.transfers() ? Transfer(action, context, *batch, micro_batch)
                                                : Load(*batch, action, micro_batch, sums));
      if (action.transfers() && !plan_[i + 1].transfers()) {
        MUSTER_RETURN_IF_ERROR(links_->Start());
      }
    } else {
      // Stages without the last unit tell it, too.
      if (action.kind == ActionKind::kEndStep) sums.loss_scale = context.loss_scale;
      MUSTER_RETURN_IF_ERROR(Execute(action, context, micro_batch));
      if (has_all_gradients_ && clock % NoiseScale::kEverySteps == 0 && action.micro_batch == 0 &&
          CompletesGradients(action.kind)) {
        Measure(action.unit, context.loss_scale, micro_batch, sums);
      }
      const bool backward =
          action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
      if (backward && !traits_.on_device) TakeRouters(micro_batch, sums);
    }
  }
  return absl::OkStatus();
}

void StepExecutor::TakeRouters(MicroBatch& micro_batch, StepSums& sums) {
  if (micro_batch.expert_loads.empty()) return;
  RouterSums& all = sums.router_sums;
  const RouterSums& own = micro_batch.router_sums;
  all.auxiliary += own.auxiliary;
  all.z += own.z;
  all.entropy += own.entropy;
  all.tokens += own.tokens;
  micro_batch.router_sums = {};
  sums.expert_loads.resize(micro_batch.expert_loads.size());
  for (size_t i = 0; i < sums.expert_loads.size(); ++i) {
    sums.expert_loads[i] += std::exchange(micro_batch.expert_loads[i], 0);
  }
}

absl::StatusOr<const Batch*> StepExecutor::BatchOf(uint64_t clock, int micro_batch,
                                                   MicroBatchSource& source) {
  for (; batches_read_ <= micro_batch; ++batches_read_) {
    MUSTER_RETURN_IF_ERROR(source.Read(clock, batches_read_, read_[batches_read_ % read_.size()]));
  }
  return &read_[micro_batch % read_.size()];
}

absl::Status StepExecutor::Load(const Batch& batch, const StepAction& action,
                                MicroBatch& micro_batch, StepSums& sums) {
  micro_batch.units = stage_.UnitsOf(action.chunk, action.chunk);
  MUSTER_RETURN_IF_ERROR(model_.Load(batch, micro_batch));
  // Each chunk of a stage loads the micro-batch.
  if (action.micro_batch < batches_loaded_) return absl::OkStatus();
  batches_loaded_ = action.micro_batch + 1;
  sums.loss_weight += micro_batch.loss_weight;
  sums.examples += micro_batch.examples;
  return absl::OkStatus();
}

absl::Status StepExecutor::Transfer(const StepAction& action, const LayerContext& context,
                                    const Batch& batch, MicroBatch& micro_batch) {
  const UnitBoundaries& boundaries = *model_.boundaries();
  const size_t bytes = boundaries.Bytes(context, action.unit, batch);
  if (action.receives()) return links_->AddReceive(MessageOf(action), action.peer, bytes);
  MUSTER_ASSIGN_OR_RETURN(const absl::Span<std::byte> sent,
                          links_->AddSend(MessageOf(action), action.peer, bytes));
  return action.of_gradient() ? boundaries.ReadGradient(context, action.unit, micro_batch, sent)
                              : boundaries.ReadOutput(context, action.unit, micro_batch, sent);
}

absl::Status StepExecutor::Await(const StepAction& action, const LayerContext& context,
                                 MicroBatch& micro_batch) {
  const UnitBoundaries& boundaries = *model_.boundaries();
  const StageMessage message = MessageOf(action);
  MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> received, links_->Await(message));
  MUSTER_RETURN_IF_ERROR(message.gradient
                             ? boundaries.SetGradient(context, action.unit, received, micro_batch)
                             : boundaries.SetOutput(context, action.unit, received, micro_batch));
  links_->Release(message);
  return absl::OkStatus();
}

Accumulation StepExecutor::StoreOf(const StepAction& action) const {
  if (has_peers() && action.micro_batch == 0) return Accumulation::kWrite;
  return strategy_->GradientStore(action.unit);
}

absl::Status StepExecutor::Execute(const StepAction& action, LayerContext context,
                                   MicroBatch& micro_batch) {
  switch (action.kind) {
    case ActionKind::kBeginStep:
      return strategy_->BeginStep(context.clock);
    case ActionKind::kPrefetchRows:
      return strategy_->Prefetch(micro_batch);
    case ActionKind::kLookUpRows:
      return strategy_->LookUp(micro_batch);
    case ActionKind::kAcquire:
      return strategy_->Acquire(action.unit, action.direction);
    case ActionKind::kRelease:
      strategy_->Release(action.unit, action.direction);
      return absl::OkStatus();
    case ActionKind::kForward:
      return model_.Forward(context, action.unit, strategy_->parameters(), micro_batch);
    case ActionKind::kBeginBackward:
      return strategy_->BeforeBackward(micro_batch.loss_weight,
                                       action.micro_batch + 1 == stage_.shape.micro_batches
                                           ? SeriesPosition::kLast
                                           : SeriesPosition::kMoreFollow);
    case ActionKind::kLastUnit:
      context.gradients = StoreOf(action);
      return model_.RunLastUnit(context, strategy_->parameters(), strategy_->gradients(),
                                micro_batch);
    case ActionKind::kBackward:
      context.gradients = StoreOf(action);
      return model_.Backward(context, action.unit, strategy_->parameters(), strategy_->gradients(),
                             micro_batch);
    case ActionKind::kBackwardInput:
      context.gradients = StoreOf(action);
      return model_.BackwardInput(context, action.unit, strategy_->parameters(),
                                  strategy_->gradients(), micro_batch);
    case ActionKind::kBackwardWeights:
      context.gradients = StoreOf(action);
      return model_.BackwardWeights(context, action.unit, strategy_->gradients(), micro_batch);
    case ActionKind::kGradientReady:
      if (ChecksGradients(stage_, traits_, action.micro_batch)) {
        MUSTER_RETURN_IF_ERROR(Found(CheckGradients(action.unit, context.clock)));
      }
      return strategy_->GradientReady(action.unit);
    case ActionKind::kPushRows:
      MUSTER_RETURN_IF_ERROR(Found(CheckRowGradients(context.clock, micro_batch)));
      return strategy_->PushRows(micro_batch);
    case ActionKind::kAwaitActivation:
    case ActionKind::kAwaitGradient:
      return Await(action, context, micro_batch);
    case ActionKind::kFinishMessages:
      return links_->Finish();
    case ActionKind::kEndStep:
      return strategy_->EndStep();
    default:
      break;
  }
  return absl::InternalError("the action is not Execute's");
}

absl::Status StepExecutor::CheckLoss(uint64_t clock, MicroBatch& micro_batch, StepSums& sums) {
  MUSTER_RETURN_IF_ERROR(model_.TakeResults(micro_batch));
  if (!std::isfinite(micro_batch.loss_sum)) {
    MUSTER_RETURN_IF_ERROR(
        Found(DivergedError(clock, absl::StrCat("loss is ", micro_batch.loss_sum))));
  }
  sums.loss_sum += micro_batch.loss_sum;
  if (traits_.on_device) TakeRouters(micro_batch, sums);
  return absl::OkStatus();
}

void StepExecutor::Measure(int unit, float loss_scale, const MicroBatch& micro_batch,
                           StepSums& sums) const {
  if (micro_batch.loss_weight == 0) return;
  if (!sums.first_micro_batch.has_value()) {
    sums.first_micro_batch = MeanGradient{.examples = static_cast<uint64_t>(micro_batch.examples)};
  }
  const std::vector<TensorSpec>& tensors = model_.description().tensors;
  const double divisor = static_cast<double>(loss_scale) * micro_batch.loss_weight;
  for (size_t i = 0; i < tensors.size(); ++i) {
    // A bias that moves by signs has no gradient, and is not in the norm of the whole.
    if (static_cast<int>(tensors[i].unit) != unit || tensors[i].sign_rate > 0) continue;
    sums.first_micro_batch->squared_norm +=
        SquaredNorm(strategy_->gradients()[i]) / (divisor * divisor);
  }
}

absl::Status StepExecutor::CheckGradients(int unit, uint64_t clock) const {
  const std::vector<TensorSpec>& tensors = model_.description().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (static_cast<int>(tensors[i].unit) != unit) continue;
    if (AreFinite(strategy_->gradients()[i])) continue;
    return DivergedError(clock,
                         absl::StrCat("the gradient of ", tensors[i].name, " is not finite"));
  }
  return absl::OkStatus();
}

absl::Status StepExecutor::CheckRowGradients(uint64_t clock, const MicroBatch& micro_batch) const {
  for (size_t table = 0; table < micro_batch.sparse.size(); ++table) {
    if (AreFinite(micro_batch.sparse[table].gradients)) continue;
    return DivergedError(
        clock, absl::StrCat("a row gradient of table ",
                            model_.description().sparse_tables[table].name, " is not finite"));
  }
  return absl::OkStatus();
}

absl::Status StepExecutor::BeginEvaluation(uint64_t clock) {
  evaluation_clock_ = clock;
  return strategy_->BeginStep(clock);
}

absl::Status StepExecutor::Evaluate(const Batch& batch, PassOutput output, PassResult& result) {
  MicroBatch& pass = *evaluated_;
  pass.wants_probabilities = output == PassOutput::kProbabilities;
  const LayerContext context = ContextOf(Pass::kEvaluation, evaluation_clock_);
  MUSTER_RETURN_IF_ERROR(model_.Load(batch, pass));
  for (const StepAction& action : evaluation_plan_) {
    if (action.transfers()) {
      MUSTER_RETURN_IF_ERROR(Transfer(action, context, batch, pass));
      MUSTER_RETURN_IF_ERROR(links_->Start());
    } else {
      MUSTER_RETURN_IF_ERROR(Execute(action, context, pass));
    }
  }
  MUSTER_RETURN_IF_ERROR(model_.TakeResults(pass));
  result = {};
  // Another stage has the results.
  if (pass.units.end < model_.description().units) return absl::OkStatus();
  result = {.examples = pass.examples,
            .loss_weight = pass.loss_weight,
            .loss_sum = pass.loss_sum,
            .correct = pass.correct,
            .scores = pass.scores,
            .probabilities = pass.probabilities,
            .predicted = pass.predicted,
            .labels = pass.labels,
            .targets = pass.targets};
  return absl::OkStatus();
}

}  // namespace muster
