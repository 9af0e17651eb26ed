#include "worker/runtime/training/step_executor.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/mesh/job_mesh.h"
#include "common/trace/trace_scope.h"
#include "proto/job.pb.h"
#include "worker/nn/diverged_error.h"

namespace muster {
namespace {

// Returns how the action is named in a trace.
TraceKind TracedAs(StepAction::Kind kind) {
  switch (kind) {
    case StepAction::Kind::kBeginStep:
      return TraceKind::kBeginStep;
    case StepAction::Kind::kLoad:
      return TraceKind::kLoad;
    case StepAction::Kind::kPrefetchRows:
      return TraceKind::kPrefetchRows;
    case StepAction::Kind::kLookUpRows:
      return TraceKind::kLookUpRows;
    case StepAction::Kind::kAcquire:
      return TraceKind::kAcquire;
    case StepAction::Kind::kRelease:
      return TraceKind::kRelease;
    case StepAction::Kind::kForward:
      return TraceKind::kForward;
    case StepAction::Kind::kBeginBackward:
      return TraceKind::kBeginBackward;
    case StepAction::Kind::kLastUnit:
      return TraceKind::kLastUnit;
    case StepAction::Kind::kCheckLoss:
      return TraceKind::kCheckLoss;
    case StepAction::Kind::kBackward:
      return TraceKind::kBackward;
    case StepAction::Kind::kBackwardInput:
      return TraceKind::kBackwardInput;
    case StepAction::Kind::kBackwardWeights:
      return TraceKind::kBackwardWeights;
    case StepAction::Kind::kGradientReady:
    case StepAction::Kind::kSendGradients:
      return TraceKind::kSendGradients;
    case StepAction::Kind::kPushRows:
      return TraceKind::kPushRows;
    case StepAction::Kind::kReceiveOutput:
    case StepAction::Kind::kSendOutput:
    case StepAction::Kind::kReceiveOutputGradient:
    case StepAction::Kind::kSendOutputGradient:
    case StepAction::Kind::kAwaitOutput:
    case StepAction::Kind::kAwaitOutputGradient:
      return TraceKind::kWait;
    case StepAction::Kind::kEndStep:
      break;
  }
  return TraceKind::kEndStep;
}

bool AreFinite(absl::Span<const float> values) { return AllFinite(values.size(), values.data()); }

}  // namespace

StepExecutor::StepExecutor(const v1::JobSpec& spec, const Model& model, Strategy& strategy,
                           const Options& options)
    : model_(model),
      strategy_(strategy),
      options_(options),
      seed_(spec.seed()),
      divides_tokens_(DividesTokens(spec)),
      evaluation_plan_(options.stage.has_value()
                           ? StageEvaluationPlan(*options.stage)
                           : EvaluationPlan(model.description().units,
                                            !model.description().sparse_tables.empty())),
      evaluated_(model.NewMicroBatch()) {
  shape_.scaled_loss = spec.compute().type() == v1::ComputeSpec::F16;
  shape_.sends_micro_batches = HoldsUnitsInFlight(spec) || ZeroStage(spec) >= 2;
  shape_.units = model.description().units;
  shape_.has_rows = !model.description().sparse_tables.empty();
  shape_.on_device = model.description().on_device;
  if (!options_.stage.has_value()) return;
  const PipelineShape& pipeline = options_.stage->shape;
  shape_.split_backward = pipeline.order == PipelineOrder::kZeroBubble;
  evaluated_->units = options_.stage->UnitsOf(0, pipeline.chunks - 1);
}

int64_t StepExecutor::most_examples() const { return model_.description().most_examples; }

void StepExecutor::Plan(int micro_batches) {
  shape_.micro_batches = micro_batches;
  plan_ = options_.stage.has_value() ? StageStepPlan(shape_, *options_.stage)
                                     : options_.make_plan(shape_);
  read_.resize(options_.links == nullptr ? 1 : micro_batches);
  for (const StepAction& action : plan_) {
    while (saved_.size() <= static_cast<size_t>(action.saved)) {
      saved_.push_back(model_.NewMicroBatch());
    }
    if (action.kind == StepAction::Kind::kBackwardInput) {
      saved_[action.saved]->split_backward = true;
    }
  }
}

LayerContext StepExecutor::ContextOf(Pass pass, uint64_t clock) const {
  return {.pass = pass,
          .seed = seed_,
          .clock = clock,
          .tensor_group = options_.tensor_group,
          .sequence_parallel = divides_tokens_};
}

absl::Status StepExecutor::Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) {
  if (plan_.empty() || shape_.micro_batches != micro_batches.count()) Plan(micro_batches.count());
  LayerContext context = ContextOf(Pass::kTraining, clock);
  batches_read_ = batches_loaded_ = 0;
  for (size_t i = 0; i < plan_.size(); ++i) {
    const StepAction& action = plan_[i];
    const TraceScope trace(TracedAs(action.kind), static_cast<uint32_t>(action.unit));
    MicroBatch& micro_batch = *saved_[action.saved];
    context.loss_scale = strategy_.loss_scale();
    context.first_example = micro_batches.first_example(action.micro_batch);
    if (action.kind == StepAction::Kind::kCheckLoss) {
      MUSTER_RETURN_IF_ERROR(CheckLoss(clock, micro_batch, sums));
    } else if (action.kind == StepAction::Kind::kLoad || action.exchanges()) {
      MUSTER_ASSIGN_OR_RETURN(const Batch* const batch,
                              BatchOf(clock, action.micro_batch, micro_batches));
      MUSTER_RETURN_IF_ERROR(action.exchanges() ? Exchange(action, context, *batch, micro_batch)
                                                : Load(*batch, action, micro_batch, sums));
      if (action.travels() && !plan_[i + 1].travels()) {
        MUSTER_RETURN_IF_ERROR(options_.links->Start());
      }
    } else {
      // Stages without the last unit tell it, too.
      if (action.kind == StepAction::Kind::kEndStep) sums.loss_scale = context.loss_scale;
      MUSTER_RETURN_IF_ERROR(Execute(action, context, micro_batch));
    }
  }
  return absl::OkStatus();
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
  if (options_.stage.has_value()) {
    micro_batch.units = options_.stage->UnitsOf(action.chunk, action.chunk);
  }
  MUSTER_RETURN_IF_ERROR(model_.Load(batch, micro_batch));
  // Each chunk of a stage loads the micro-batch.
  if (action.micro_batch < batches_loaded_) return absl::OkStatus();
  batches_loaded_ = action.micro_batch + 1;
  sums.loss_weight += micro_batch.loss_weight;
  sums.examples += micro_batch.examples;
  return absl::OkStatus();
}

absl::Status StepExecutor::Exchange(const StepAction& action, const LayerContext& context,
                                    const Batch& batch, MicroBatch& micro_batch) {
  using Kind = StepAction::Kind;
  const UnitBoundaries& boundaries = *model_.boundaries();
  const StageMessage message = {.gradient = action.kind == Kind::kReceiveOutputGradient ||
                                            action.kind == Kind::kSendOutputGradient ||
                                            action.kind == Kind::kAwaitOutputGradient,
                                .unit = action.unit,
                                .micro_batch = action.micro_batch};
  if (action.kind == Kind::kAwaitOutput || action.kind == Kind::kAwaitOutputGradient) {
    MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> received,
                            options_.links->Await(message));
    MUSTER_RETURN_IF_ERROR(message.gradient
                               ? boundaries.SetGradient(context, action.unit, received, micro_batch)
                               : boundaries.SetOutput(context, action.unit, received, micro_batch));
    options_.links->Release(message);
    return absl::OkStatus();
  }
  const size_t bytes = boundaries.Bytes(context, action.unit, batch);
  if (action.kind == Kind::kReceiveOutput || action.kind == Kind::kReceiveOutputGradient) {
    return options_.links->AddReceive(message, action.peer, bytes);
  }
  MUSTER_ASSIGN_OR_RETURN(const absl::Span<std::byte> sent,
                          options_.links->AddSend(message, action.peer, bytes));
  return message.gradient ? boundaries.ReadGradient(context, action.unit, micro_batch, sent)
                          : boundaries.ReadOutput(context, action.unit, micro_batch, sent);
}

Accumulation StepExecutor::StoreOf(const StepAction& action) const {
  if (options_.links != nullptr && action.micro_batch == 0) return Accumulation::kWrite;
  return strategy_.GradientStore(action.unit);
}

absl::Status StepExecutor::Execute(const StepAction& action, LayerContext context,
                                   MicroBatch& micro_batch) {
  switch (action.kind) {
    case StepAction::Kind::kBeginStep:
      return strategy_.BeginStep(context.clock);
    case StepAction::Kind::kPrefetchRows:
      return strategy_.Prefetch(micro_batch);
    case StepAction::Kind::kLookUpRows:
      return strategy_.LookUp(micro_batch);
    case StepAction::Kind::kAcquire:
      return strategy_.Acquire(action.unit, action.direction);
    case StepAction::Kind::kRelease:
      strategy_.Release(action.unit, action.direction);
      return absl::OkStatus();
    case StepAction::Kind::kForward:
      return model_.Forward(context, action.unit, strategy_.parameters(), micro_batch);
    case StepAction::Kind::kBeginBackward:
      return strategy_.BeforeBackward(micro_batch.loss_weight,
                                      action.micro_batch + 1 == shape_.micro_batches
                                          ? SeriesPosition::kLast
                                          : SeriesPosition::kMoreFollow);
    case StepAction::Kind::kLastUnit:
      context.gradients = StoreOf(action);
      return model_.RunLastUnit(context, strategy_.parameters(), strategy_.gradients(),
                                micro_batch);
    case StepAction::Kind::kBackward:
      context.gradients = StoreOf(action);
      return model_.Backward(context, action.unit, strategy_.parameters(), strategy_.gradients(),
                             micro_batch);
    case StepAction::Kind::kBackwardInput:
      context.gradients = StoreOf(action);
      return model_.BackwardInput(context, action.unit, strategy_.parameters(),
                                  strategy_.gradients(), micro_batch);
    case StepAction::Kind::kBackwardWeights:
      context.gradients = StoreOf(action);
      return model_.BackwardWeights(context, action.unit, strategy_.gradients(), micro_batch);
    case StepAction::Kind::kGradientReady:
      return strategy_.GradientReady(action.unit);
    case StepAction::Kind::kSendGradients:
      MUSTER_RETURN_IF_ERROR(CheckGradients(action.unit, context.clock));
      return strategy_.GradientReady(action.unit);
    case StepAction::Kind::kPushRows:
      MUSTER_RETURN_IF_ERROR(CheckRowGradients(context.clock, micro_batch));
      return strategy_.PushRows(micro_batch);
    case StepAction::Kind::kEndStep:
      if (options_.links != nullptr) MUSTER_RETURN_IF_ERROR(options_.links->Finish());
      return strategy_.EndStep();
    default:
      break;
  }
  return absl::InternalError("the action is not Execute's");
}

absl::Status StepExecutor::CheckLoss(uint64_t clock, MicroBatch& micro_batch,
                                     StepSums& sums) const {
  MUSTER_RETURN_IF_ERROR(model_.TakeResults(micro_batch));
  if (!std::isfinite(micro_batch.loss_sum)) {
    return DivergedError(clock, absl::StrCat("loss is ", micro_batch.loss_sum));
  }
  sums.loss_sum += micro_batch.loss_sum;
  return absl::OkStatus();
}

absl::Status StepExecutor::CheckGradients(int unit, uint64_t clock) const {
  const std::vector<TensorSpec>& tensors = model_.description().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (static_cast<int>(tensors[i].unit) != unit) continue;
    if (AreFinite(strategy_.gradients()[i])) continue;
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
  return strategy_.BeginStep(clock);
}

absl::Status StepExecutor::Evaluate(const Batch& batch, PassOutput output, PassResult& result) {
  MicroBatch& pass = *evaluated_;
  pass.wants_probabilities = output == PassOutput::kProbabilities;
  const LayerContext context = ContextOf(Pass::kEvaluation, evaluation_clock_);
  MUSTER_RETURN_IF_ERROR(model_.Load(batch, pass));
  for (const StepAction& action : evaluation_plan_) {
    if (!action.exchanges()) {
      MUSTER_RETURN_IF_ERROR(Execute(action, context, pass));
      continue;
    }
    MUSTER_RETURN_IF_ERROR(Exchange(action, context, batch, pass));
    if (action.travels()) MUSTER_RETURN_IF_ERROR(options_.links->Start());
  }
  if (options_.links != nullptr) MUSTER_RETURN_IF_ERROR(options_.links->Finish());
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
