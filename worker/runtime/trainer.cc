#include "worker/runtime/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/loss_scale.h"
#include "common/base/status_macros.h"
#include "common/kernels/row_sums.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

bool IsDue(uint64_t clock, uint64_t every, uint64_t last) {
  if (clock == last) return true;
  return every > 0 && clock > 0 && clock % every == 0;
}

absl::Status Diverged(uint64_t clock, absl::string_view what) {
  return absl::OutOfRangeError(absl::StrCat("diverged at step ", clock + 1, ": ", what,
                                            "; lower the learning rate or clip the gradient"));
}

// In f64, where squares of finite f32 are far from infinite, and a sum keeps what is not a number.
bool AllFinite(absl::Span<const float> values) {
  return std::isfinite(SumOfSquares(values.size(), values.data()));
}

// A rank stands for a slot where all are there.
TrainerOptions Filled(TrainerOptions options, const v1::JobSpec& spec) {
  if (options.world_size > 0) return options;
  options.world_size = spec.workers();
  options.rank = options.slot;
  return options;
}

StepShape ShapeOf(const ModelDescription& model, const Sampler* sampler, uint32_t rank,
                  const absl::optional<LossScaler>& loss_scaler) {
  StepShape shape;
  shape.scaled_loss = loss_scaler.has_value();
  shape.units = model.units;
  shape.has_rows = !model.sparse_tables.empty();
  if (sampler != nullptr) shape.micro_batches = static_cast<int>(sampler->MicroBatches(rank));
  return shape;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const v1::JobSpec& spec,
                                                         const TrainerOptions& given,
                                                         const PreparedJob& job, Strategy& strategy,
                                                         CoordinatorClient& coordinator,
                                                         const Clock& clock) {
  const TrainerOptions options = Filled(given, spec);
  std::unique_ptr<const Sampler> sampler;
  if (job.total_steps > 0) {
    SamplerOptions sampling;
    sampling.seed = spec.seed();
    sampling.slots = options.world_size;
    sampling.workers = spec.workers();
    sampling.batch_size = spec.batch_size();
    sampling.training_examples = job.split.training;
    sampling.micro_batches = std::max(1u, spec.micro_batches());
    MUSTER_ASSIGN_OR_RETURN(sampler, Sampler::Create(sampling));
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Evaluator> evaluator,
                          Evaluator::Create(spec.evaluation(), job.split, options.rank,
                                            options.world_size, *job.dataset, *job.model));
  return std::unique_ptr<Trainer>(new Trainer(spec, options, job, std::move(sampler),
                                              std::move(evaluator), strategy, coordinator, clock));
}

Trainer::Trainer(const v1::JobSpec& spec, const TrainerOptions& options, const PreparedJob& job,
                 std::unique_ptr<const Sampler> sampler, std::unique_ptr<Evaluator> evaluator,
                 Strategy& strategy, CoordinatorClient& coordinator, const Clock& clock)
    : options_(options),
      job_(job),
      seed_(spec.seed()),
      checkpoint_every_(spec.checkpoint().every_steps()),
      evaluate_every_(spec.evaluation().every_steps()),
      sampler_(std::move(sampler)),
      evaluator_(std::move(evaluator)),
      strategy_(strategy),
      coordinator_(coordinator),
      clock_(clock),
      loss_scaler_(LossScaler::ForJob(spec.compute())),
      shape_(ShapeOf(job.model->description(), sampler_.get(), options.rank, loss_scaler_)),
      plan_(TrainingStepPlan(shape_)),
      micro_batch_(job.model->NewMicroBatch()),
      checkpoints_({.commits = options_.rank == 0,
                    .full_every = spec.checkpoint().full_every(),
                    .schema = job.schema->SerializeAsString(),
                    .log = options_.log},
                   strategy, coordinator),
      reporter_(coordinator, options.reporting) {}

absl::Status Trainer::Run() {
  const absl::Status status = Train();
  // Steps that ended well count, whatever came then.
  reporter_.Finish();
  return status.ok() ? FromCoordinator(reporter_.status()) : status;
}

absl::Status Trainer::Train() {
  MUSTER_ASSIGN_OR_RETURN(uint64_t clock, strategy_.Start());
  BeginLossScale();
  StepReport start;
  start.clock = clock;
  reporter_.Add(start);
  // Earlier rounds and what led here belong to no step of this trainer.
  reported_ = strategy_.counters();
  options_.log(
      absl::StrCat("slot ", options_.slot, " starts at step ", clock, " of ", job_.total_steps));
  std::unique_ptr<Prefetcher> prefetcher;
  if (clock < job_.total_steps) {
    PrefetcherOptions prefetching;
    prefetching.slot = options_.rank;
    prefetching.start_clock = static_cast<int64_t>(clock);
    prefetching.end_clock = static_cast<int64_t>(job_.total_steps);
    prefetcher = std::make_unique<Prefetcher>(*job_.dataset, *sampler_, prefetching);
  }
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(Next next, Synchronize(clock));
    if (next == Next::kStop || clock >= job_.total_steps) break;
    MUSTER_RETURN_IF_ERROR(FromCoordinator(CheckRound()));
    MUSTER_RETURN_IF_ERROR(TrainStep(clock, *prefetcher));
    ++clock;
    MUSTER_RETURN_IF_ERROR(FromCheckpoints(checkpoints_.GoOn()));
  }
  MUSTER_RETURN_IF_ERROR(FromCheckpoints(checkpoints_.Finish()));
  options_.log(absl::StrCat("slot ", options_.slot, " finished at step ", clock));
  if (loss_scaler_.has_value()) {
    options_.log(absl::StrFormat("slot %d: %d steps were left out; the loss scale is %g",
                                 options_.slot, loss_scaler_->overflows(), loss_scaler_->scale()));
  }
  return absl::OkStatus();
}

void Trainer::BeginLossScale() {
  if (!loss_scaler_.has_value() || loss_scaler_->fixed()) return;
  if (const absl::optional<LossScale> known = strategy_.loss_scale()) {
    loss_scaler_->Restore(*known);
    options_.log(absl::StrFormat("slot %d goes on with a loss scale of %g", options_.slot,
                                 loss_scaler_->scale()));
  }
  KeepLossScale();
}

void Trainer::KeepLossScale() {
  if (!loss_scaler_.has_value() || loss_scaler_->fixed()) return;
  strategy_.set_loss_scale(loss_scaler_->state());
}

absl::Status Trainer::FromCoordinator(absl::Status status) {
  if (!status.ok()) coordinator_status_ = status;
  return status;
}

absl::Status Trainer::CheckRound() const {
  if (options_.round == 0 || reporter_.meet_after_round() < options_.round) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("round ", options_.round,
                                           " is over: the coordinator wants the tasks to meet "
                                           "again"));
}

absl::StatusOr<Trainer::Next> Trainer::Synchronize(uint64_t clock) {
  // A job that only evaluates has nothing to keep.
  const bool keeps = job_.total_steps > 0 && options_.restored_clock != clock;
  Next next = Next::kTrain;
  // First, since it says whether this is the end, whose checkpoint is waited for.
  if (evaluator_->any() && IsDue(clock, evaluate_every_, job_.total_steps)) {
    MUSTER_ASSIGN_OR_RETURN(next, Evaluate(clock));
  }
  // What reached the target is the result, so it is kept.
  const bool last = next == Next::kStop || clock >= job_.total_steps;
  if (keeps && (last || IsDue(clock, checkpoint_every_, job_.total_steps))) {
    MUSTER_RETURN_IF_ERROR(FromCheckpoints(checkpoints_.Take(
        clock, last ? CheckpointTaker::Place::kLast : CheckpointTaker::Place::kMoreFollow)));
  }
  return next;
}

absl::Status Trainer::FromCheckpoints(absl::Status status) {
  if (!checkpoints_.coordinator_status().ok()) {
    FromCoordinator(checkpoints_.coordinator_status()).IgnoreError();
  }
  return status;
}

absl::StatusOr<Trainer::Next> Trainer::Evaluate(uint64_t clock) {
  MUSTER_RETURN_IF_ERROR(strategy_.BeginStep(clock));
  v1::ReportEvaluationRequest request;
  MUSTER_RETURN_IF_ERROR(evaluator_->Evaluate(clock, strategy_, request));
  // So that the result is noted beside the time that training had taken.
  reporter_.Flush();
  const absl::StatusOr<v1::ReportEvaluationReply> reply =
      coordinator_.ReportEvaluation(std::move(request));
  MUSTER_RETURN_IF_ERROR(FromCoordinator(reply.status()));
  if (options_.rank == 0) {
    options_.log(absl::StrFormat("step %d: held-out %s %.6g, loss %.6g over %d examples", clock,
                                 reply->result().metric(), reply->result().value(),
                                 reply->result().loss(), reply->result().examples()));
  }
  // What this moved and waited for belongs to no training step.
  const uint64_t staleness_sum = reported_.staleness_sum;
  reported_ = strategy_.counters();
  reported_.staleness_sum = staleness_sum;
  return reply->stop() ? Next::kStop : Next::kTrain;
}

absl::Status Trainer::TrainStep(uint64_t clock, Prefetcher& prefetcher) {
  const absl::Duration started = clock_.Monotonic();
  step_ = StepReport();
  waited_ = absl::ZeroDuration();
  for (const StepAction& action : plan_) {
    MUSTER_RETURN_IF_ERROR(Execute(action, clock, prefetcher));
  }
  KeepLossScale();
  Report(clock + 1, clock_.Monotonic() - started);
  return FromCoordinator(reporter_.status());
}

absl::Status Trainer::Execute(const StepAction& action, uint64_t clock, Prefetcher& prefetcher) {
  const Model& model = *job_.model;
  LayerContext context;
  context.seed = seed_;
  context.clock = clock;
  context.parameters_version = clock + 1;
  if (loss_scaler_.has_value()) context.loss_scale = loss_scaler_->scale();
  context.first_example = sampler_->MicroBatchBegin(options_.rank, action.micro_batch);
  switch (action.kind) {
    case StepAction::Kind::kBeginStep:
      return strategy_.BeginStep(clock);
    case StepAction::Kind::kLoad:
      return LoadMicroBatch(action, clock, prefetcher);
    case StepAction::Kind::kPrefetchRows:
      return strategy_.Prefetch(*micro_batch_);
    case StepAction::Kind::kLookUpRows:
      return strategy_.LookUp(*micro_batch_);
    case StepAction::Kind::kForward:
      MUSTER_RETURN_IF_ERROR(strategy_.BeforeForward(action.unit));
      return model.Forward(context, action.unit, strategy_.parameters(), *micro_batch_);
    case StepAction::Kind::kBeginBackward:
      if (!std::isfinite(micro_batch_->loss_sum)) {
        return Diverged(clock, absl::StrCat("loss is ", micro_batch_->loss_sum));
      }
      step_.loss_sum += micro_batch_->loss_sum;
      step_.loss_weight += micro_batch_->loss_weight;
      step_.examples += micro_batch_->examples;
      return strategy_.BeforeBackward(micro_batch_->loss_weight,
                                      action.micro_batch + 1 == shape_.micro_batches
                                          ? MicroBatchPlace::kLast
                                          : MicroBatchPlace::kMoreFollow);
    case StepAction::Kind::kBackward:
      return model.Backward(context, action.unit, strategy_.parameters(), strategy_.gradients(),
                            *micro_batch_);
    case StepAction::Kind::kGradientReady:
      return strategy_.GradientReady(action.unit);
    case StepAction::Kind::kSendGradients:
      MUSTER_RETURN_IF_ERROR(CheckGradients(action.unit, clock));
      return strategy_.GradientReady(action.unit);
    case StepAction::Kind::kUnscale:
      return UnscaleGradients(clock);
    case StepAction::Kind::kPushRows:
      MUSTER_RETURN_IF_ERROR(CheckRowGradients(clock));
      return strategy_.PushRows(*micro_batch_);
    case StepAction::Kind::kEndStep:
      return strategy_.EndStep();
  }
  return absl::InternalError("unknown action");
}

absl::Status Trainer::LoadMicroBatch(const StepAction& action, uint64_t clock,
                                     Prefetcher& prefetcher) {
  const absl::Duration started = clock_.Monotonic();
  MUSTER_RETURN_IF_ERROR(prefetcher.Next(static_cast<int64_t>(clock), action.micro_batch, batch_));
  waited_ += clock_.Monotonic() - started;
  return job_.model->Load(batch_, *micro_batch_);
}

absl::Status Trainer::UnscaleGradients(uint64_t clock) {
  const std::vector<TensorSpec>& tensors = job_.model->description().tensors;
  const float scale = loss_scaler_->scale();
  const TensorSpec* overflowed = nullptr;
  for (size_t i = 0; i < tensors.size(); ++i) {
    // A tied tensor's gradient is that of the other, and divided there.
    if (!tensors[i].tied_to.empty()) continue;
    const absl::Span<float> gradient = strategy_.gradients()[i];
    if (Unscale(gradient.size(), 1 / scale, gradient.data())) continue;
    if (overflowed == nullptr) overflowed = &tensors[i];
  }
  if (overflowed == nullptr) {
    if (loss_scaler_->Succeeded()) {
      options_.log(absl::StrFormat("slot %d: the loss scale is %g after step %d", options_.slot,
                                   loss_scaler_->scale(), clock + 1));
    }
    return absl::OkStatus();
  }
  if (!loss_scaler_->Overflowed()) {
    return Diverged(clock,
                    absl::StrFormat("the gradient of %s is not finite at a loss scale of %g%s",
                                    overflowed->name, scale,
                                    loss_scaler_->fixed() && scale > 1
                                        ? " (lower compute.loss_scale, or leave it out)"
                                        : ""));
  }
  options_.log(absl::StrFormat(
      "slot %d: gradients of step %d overflow at a loss scale of %g and are left out (%d such "
      "steps so far); it is %g from now on",
      options_.slot, clock + 1, scale, loss_scaler_->overflows(), loss_scaler_->scale()));
  return strategy_.Withdraw();
}

absl::Status Trainer::CheckGradients(int unit, uint64_t clock) const {
  const std::vector<TensorSpec>& tensors = job_.model->description().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (static_cast<int>(tensors[i].unit) != unit) continue;
    if (AllFinite(strategy_.gradients()[i])) continue;
    return Diverged(clock, absl::StrCat("the gradient of ", tensors[i].name, " is not finite"));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CheckRowGradients(uint64_t clock) const {
  for (size_t table = 0; table < micro_batch_->sparse.size(); ++table) {
    if (AllFinite(micro_batch_->sparse[table].gradients)) continue;
    return Diverged(
        clock, absl::StrCat("a row gradient of table ",
                            job_.model->description().sparse_tables[table].name, " is not finite"));
  }
  return absl::OkStatus();
}

void Trainer::Report(uint64_t clock, absl::Duration spent) {
  const StrategyCounters now = strategy_.counters();
  StepReport step = step_;
  step.clock = clock;
  step.steps = 1;
  step.bytes_pushed = now.bytes_pushed - reported_.bytes_pushed;
  step.bytes_pulled = now.bytes_pulled - reported_.bytes_pulled;
  step.bytes_sent = now.bytes_sent - reported_.bytes_sent;
  step.bytes_received = now.bytes_received - reported_.bytes_received;
  step.other_bytes_sent = now.other_bytes_sent - reported_.other_bytes_sent;
  step.other_bytes_received = now.other_bytes_received - reported_.other_bytes_received;
  step.staleness_sum = now.staleness_sum - reported_.staleness_sum;
  step.staleness_max = now.staleness_max;
  step.training_seconds = absl::ToDoubleSeconds(spent);
  step.waiting_seconds = absl::ToDoubleSeconds(waited_);
  step.exposed_communication_seconds = now.exposed_seconds - reported_.exposed_seconds;
  step.compute_seconds = std::max(
      0.0, step.training_seconds - step.waiting_seconds - step.exposed_communication_seconds);
  reporter_.Add(step);
  reported_ = now;
}

}  // namespace muster
