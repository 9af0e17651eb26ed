#include "worker/runtime/training/trainer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/machine/processor_model.h"
#include "common/base/status_macros.h"
#include "common/kernels/matmul.h"
#include "common/mesh/job_mesh.h"
#include "common/optim/schedule.h"
#include "common/step/step_batches.h"
#include "common/step/step_shares.h"
#include "common/trace/trace_scope.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "proto/task_service.pb.h"
#include "worker/data/sampling/job_mixture.h"
#include "worker/nn/loss_scaler.h"
#include "worker/nn/model.h"
#include "worker/runtime/training/step_verifier.h"

namespace muster {
namespace {

bool IsDue(uint64_t clock, uint64_t every, uint64_t last) {
  if (clock == last) return true;
  return every > 0 && clock > 0 && clock % every == 0;
}

ProgressReporterOptions Reporting(const TrainerOptions& options, const v1::JobSpec& spec,
                                  const ModelDescription& model) {
  ProgressReporterOptions reporting = options.reporting;
  reporting.round = options.round;
  reporting.experts = model.experts;
  reporting.drops_choices = model.drops_choices;
  reporting.checkpoint_every = spec.checkpoint().every_steps();
  return reporting;
}

int DataRank(const TrainerOptions& options) {
  return options.mesh.Position(options.rank, kDataAxes);
}

// Returns whether no other rank of the same blocks computes the same tokens, or this is the first
// of those that do.
bool ReportsLoads(const TrainerOptions& options, const v1::JobSpec& spec) {
  return DividesTokens(spec) || options.mesh.Position(options.rank, Axis::kTensor) == 0;
}

// Says what gradients' bits depend on beside the share: kernels choose the order of sums by it.
std::string BitsDependOn() {
  return absl::StrCat(ProcessorModel(), " with ", ComputeThreads(), " threads");
}

// Returns the sampler of the job's batches, as specified and decided; null if the job only
// evaluates.
absl::StatusOr<std::unique_ptr<const Sampler>> MakeSampler(const v1::JobSpec& spec,
                                                           const Mesh& mesh, const PreparedJob& job,
                                                           const Adjustments& adjustments) {
  if (job.total_steps == 0) return nullptr;
  SamplerOptions sampling;
  sampling.seed = spec.seed();
  sampling.data_ranks = mesh.size(kDataAxes);
  sampling.job_data_ranks = SizeAlong(kDataAxes, spec);
  sampling.batches = BatchesOf(spec, job.positions, adjustments.all());
  sampling.shares = SharesOf(spec, adjustments.all());
  sampling.training_examples = job.split.training;
  sampling.first_clock = job.first_clock();
  sampling.mixture = job.mixture;
  if (!adjustments.all().empty()) {
    // Weights change at steps, whose examples are now others.
    MUSTER_ASSIGN_OR_RETURN(sampling.mixture,
                            MakeJobMixture(spec, job.dataset->info().sources, sampling.batches,
                                           static_cast<int64_t>(job.total_steps)));
  }
  sampling.micro_batches = std::max(1u, spec.micro_batches());
  if (spec.scale_batch()) {
    // Batches before the last decision were of other numbers of data ranks; the present one has a
    // share of the usual size for each.
    sampling.job_data_ranks = sampling.data_ranks;
    const auto decided = adjustments.all();
    if (!decided.empty()) {
      sampling.first_clock =
          std::max(sampling.first_clock, static_cast<int64_t>(decided.back().clock()));
    }
  }
  return Sampler::Create(sampling);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    const v1::JobSpec& spec, const TrainerOptions& options, const PreparedJob& job,
    const TrainingParts& parts, CoordinatorClient& coordinator, const Clock& clock) {
  const int data_ranks = options.mesh.size(kDataAxes);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Sampler> sampler,
                          MakeSampler(spec, options.mesh, job, options.adjustments));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Evaluator> evaluator,
                          Evaluator::Create(spec, job.evaluated, DataRank(options), data_ranks,
                                            job.evaluation_data(), job.model->description()));
  return std::unique_ptr<Trainer>(new Trainer(spec, options, job, std::move(sampler),
                                              std::move(evaluator), parts, coordinator, clock));
}

Trainer::Trainer(const v1::JobSpec& spec, const TrainerOptions& options, const PreparedJob& job,
                 std::unique_ptr<const Sampler> sampler, std::unique_ptr<Evaluator> evaluator,
                 const TrainingParts& parts, CoordinatorClient& coordinator, const Clock& clock)
    : options_(options),
      spec_(std::make_unique<const v1::JobSpec>(spec)),
      job_(job),
      checkpoint_every_(spec.checkpoint().every_steps()),
      evaluate_every_(spec.evaluation().every_steps()),
      reports_results_(options.mesh.ReportsResults(options.rank)),
      reports_loads_(ReportsLoads(options, spec)),
      sampler_(std::move(sampler)),
      evaluator_(std::move(evaluator)),
      state_(parts.state),
      engine_(parts.engine),
      coordinator_(coordinator),
      clock_(clock),
      checkpoints_({.commits = options_.rank == 0,
                    .full_every = spec.checkpoint().full_every(),
                    .schema = job.schema->SerializeAsString(),
                    .data_preparation = job.dataset->info().preparation,
                    .rank_files = RankFiles(spec, options_.mesh.world_size()),
                    .log = options_.log,
                    .wait = options_.wait},
                   parts.state, coordinator, clock),
      reported_clock_(options.reported_clock),
      adjustments_(options.adjustments),
      reporter_(coordinator, Reporting(options, spec, job.model->description())) {}

absl::Status Trainer::Run() {
  const absl::Status status = Train();
  // Finished steps count, whatever error followed.
  reporter_.Finish();
  return status.ok() ? FromCoordinator(reporter_.status()) : status;
}

absl::Status Trainer::Train() {
  MUSTER_ASSIGN_OR_RETURN(uint64_t clock, state_.Start());
  StepReport start;
  start.clock = clock;
  reporter_.Add(start);
  // The counters of earlier rounds and of the start belong to no step of this trainer.
  reported_ = state_.counters();
  options_.log(
      absl::StrCat("slot ", options_.slot, " starts at step ", clock, " of ", job_.total_steps));
  if (clock < job_.total_steps) ReadFrom(clock);
  uint64_t trains_at = clock;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const Next next, Synchronize(clock));
    if (next == Next::kStop) break;
    MUSTER_RETURN_IF_ERROR(FromCoordinator(CheckRound(clock)));
    if (clock >= trains_at) {
      MUSTER_RETURN_IF_ERROR(TrainStep(clock));
      trains_at = state_.LeftOutUntil().value_or(clock + 1);
    }
    ++clock;
    MUSTER_RETURN_IF_ERROR(FromCheckpoints(checkpoints_.GoOn()));
  }
  MUSTER_RETURN_IF_ERROR(FromCheckpoints(checkpoints_.Finish()));
  options_.log(absl::StrCat("slot ", options_.slot, " finished at step ", clock));
  if (const LossScaler* scaler = state_.loss_scaler()) {
    options_.log(absl::StrFormat("slot %d: %d steps were left out; the loss scale is %g",
                                 options_.slot, scaler->overflows(), scaler->scale()));
  }
  return absl::OkStatus();
}

void Trainer::ReadFrom(uint64_t clock) {
  reads_at_ = clock;
  reader_ = std::make_unique<MicroBatchReader>(
      *job_.dataset, *sampler_, DataRank(options_),
      MicroBatchReader::Range{.start_clock = clock, .end_clock = job_.total_steps}, clock_);
}

double Trainer::RateFactor(uint64_t clock) const {
  const int64_t batch_size = sampler_->options().batches.At(static_cast<int64_t>(clock)).size;
  return adjustments_.RateFactor(clock) * BatchScale(spec_->schedule(), batch_size) /
         BatchScale(spec_->schedule(), spec_->batch_size());
}

absl::Status Trainer::FromCoordinator(absl::Status status) {
  if (!status.ok()) coordinator_status_ = status;
  return status;
}

absl::Status Trainer::CheckRound(uint64_t clock) const {
  if (const uint64_t end = reporter_.end_after_clock(); end > 0 && clock >= end) {
    return absl::CancelledError(
        absl::StrCat("ends at step ", clock, ", from which on other slots train"));
  }
  if (reporter_.meet_after_round() < std::max<uint64_t>(options_.round, 1)) return absl::OkStatus();
  if (options_.round == 0) {
    return absl::CancelledError("leaves after its step, since its worker must end");
  }
  return absl::CancelledError(absl::StrCat("round ", options_.round,
                                           " is over: the coordinator wants the tasks to meet "
                                           "again"));
}

absl::StatusOr<Trainer::Next> Trainer::Synchronize(uint64_t clock) {
  // A job that only evaluates has nothing to keep. A committed checkpoint is not taken again,
  // neither after a restore nor in a later round or incarnation.
  const bool keeps = job_.total_steps > 0 && !(options_.checkpoint_clock >= clock);
  const auto keep = [&](SeriesPosition position) {
    const TraceScope trace(ActionKind::kCheckpoint);
    return keeps ? Keep(clock, position) : absl::OkStatus();
  };
  // The last checkpoint is committed before the last evaluation, so that the weights survive if the
  // evaluation fails.
  const bool end = clock >= job_.total_steps;
  if (end) MUSTER_RETURN_IF_ERROR(keep(SeriesPosition::kLast));
  Next next = end ? Next::kStop : Next::kTrain;
  bool due = IsDue(clock, checkpoint_every_, job_.total_steps);
  const bool evaluates = evaluator_->any() && IsDue(clock, evaluate_every_, job_.total_steps);
  if (evaluates) {
    MUSTER_ASSIGN_OR_RETURN(const v1::ReportEvaluationReply answer, Evaluate(clock));
    if (answer.stop()) next = Next::kStop;
    due = due || answer.keep();
  }
  if (end) return next;
  if (next == Next::kTrain &&
      MayAdjust(*spec_, clock, evaluates ? Evaluated::kYes : Evaluated::kNo)) {
    MUSTER_RETURN_IF_ERROR(Adjust(clock));
  }
  // The checkpoint follows the evaluation, which may end the job: the weights that reached the
  // target are the result, so this checkpoint is the last one.
  if (next == Next::kStop) {
    MUSTER_RETURN_IF_ERROR(keep(SeriesPosition::kLast));
  } else if (due) {
    MUSTER_RETURN_IF_ERROR(keep(SeriesPosition::kMoreFollow));
  }
  return next;
}

absl::Status Trainer::Keep(uint64_t clock, SeriesPosition position) {
  const absl::Duration started = clock_.Monotonic();
  MUSTER_RETURN_IF_ERROR(FromCheckpoints(checkpoints_.Take(clock, position)));
  reporter_.Add({.clock = clock, .checkpoint_seconds = SecondsSince(started)});
  return absl::OkStatus();
}

double Trainer::SecondsSince(absl::Duration started) const {
  return absl::ToDoubleSeconds(clock_.Monotonic() - started);
}

absl::Status Trainer::FromCheckpoints(absl::Status status) {
  if (!checkpoints_.coordinator_status().ok()) {
    FromCoordinator(checkpoints_.coordinator_status()).IgnoreError();
  }
  return status;
}

absl::StatusOr<v1::ReportEvaluationReply> Trainer::Evaluate(uint64_t clock) {
  const TraceScope trace(ActionKind::kEvaluation);
  const absl::Duration started = clock_.Monotonic();
  MUSTER_RETURN_IF_ERROR(engine_.BeginEvaluation(clock));
  v1::ReportEvaluationRequest request;
  MUSTER_RETURN_IF_ERROR(evaluator_->Evaluate(clock, engine_, request));
  if (!reports_results_) evaluator_->LeaveOutResults(request);
  // The coordinator notes the result beside the training time so far, and the task's peak memory
  // includes evaluations, also after the last report of steps.
  reporter_.Flush();
  absl::StatusOr<v1::ReportEvaluationReply> reply =
      coordinator_.ReportEvaluation(std::move(request));
  MUSTER_RETURN_IF_ERROR(FromCoordinator(reply.status()));
  reporter_.Add({.clock = clock, .evaluation_seconds = SecondsSince(started)});
  if (options_.rank == 0) {
    const v1::EvaluationResult& result = reply->result();
    const std::string value =
        result.no_value().empty() ? absl::StrFormat("%.6g", result.value()) : "has no value here";
    options_.log(absl::StrFormat("step %d: held-out %s %s, loss %.6g over %d examples", clock,
                                 result.metric(), value, result.loss(), result.examples()));
  }
  // The evaluation's bytes and waits belong to no training step.
  const uint64_t staleness_sum = reported_.staleness_sum;
  reported_ = state_.counters();
  reported_.staleness_sum = staleness_sum;
  return reply;
}

absl::Status Trainer::Adjust(uint64_t clock) {
  v1::AdjustRequest request;
  request.set_clock(clock);
  if (const absl::optional<double> scale = noise_scale_.examples()) request.set_noise_scale(*scale);
  request.set_examples(own_work_.examples);
  request.set_compute_seconds(own_work_.compute_seconds);
  const absl::StatusOr<v1::AdjustReply> reply = coordinator_.Adjust(std::move(request));
  MUSTER_RETURN_IF_ERROR(FromCoordinator(reply.status()));
  own_work_ = {};
  adjustments_ = Adjustments(reply->adjustments());
  const v1::Adjustment now = adjustments_.At(clock);
  if (now.clock() != clock) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Sampler> sampler,
                          MakeSampler(*spec_, options_.mesh, job_, adjustments_));
  reader_.reset();
  sampler_ = std::move(sampler);
  ReadFrom(clock);
  if (options_.rank == 0) {
    options_.log(absl::StrFormat(
        "step %d: the learning rate is %g times the scheduled one, and a step has %d examples: %s",
        clock, RateFactor(clock), sampler_->options().batches.At(static_cast<int64_t>(clock)).size,
        now.reason()));
  }
  return absl::OkStatus();
}

absl::Status Trainer::TrainStep(uint64_t clock) {
  const TraceStep trace(clock);
  const absl::Duration started = clock_.Monotonic();
  if (reads_at_ != clock) {
    reader_.reset();
    ReadFrom(clock);
  }
  reads_at_ = clock + 1;
  const absl::Duration waited = reader_->waited();
  StepSums sums;
  state_.SetRateFactor(RateFactor(clock));
  absl::Duration compared;
  MUSTER_RETURN_IF_ERROR(RunEngine(clock, sums, compared));
  own_work_.examples += OwnExamples(clock, clock + 1);
  const absl::optional<uint64_t> left_out_until = state_.LeftOutUntil();
  const bool counts = !left_out_until.has_value();
  if (counts) MeasureNoise(clock, sums);
  StepReport step;
  step.clock = left_out_until.value_or(clock + 1);
  const bool repeats = clock < reported_clock_;
  step.steps = repeats ? 0 : 1;
  if (!counts) step.dropped_examples = sums.examples + OwnExamples(clock + 1, *left_out_until);
  if (reports_results_ && counts && !repeats) {
    step.loss_sum = sums.loss_sum;
    step.loss_weight = sums.loss_weight;
    step.examples = sums.examples;
    const int64_t labels = job_.dataset->info().labels_per_example;
    if (labels > 1) step.tokens = sums.examples * static_cast<uint64_t>(labels);
  }
  step.training_seconds = SecondsSince(started);
  if (repeats) {
    step.redone_steps = 1;
    step.redone_seconds = step.training_seconds;
  }
  step.waiting_seconds = absl::ToDoubleSeconds(reader_->waited() - waited);
  if (options_.rank == 0 && counts && !repeats) DescribeStep(clock, sums, step);
  if (reports_loads_ && !repeats) step.expert_loads = std::move(sums.expert_loads);
  Report(std::move(step), compared);
  reported_clock_ = std::max(reported_clock_, clock + 1);
  return FromCoordinator(reporter_.status());
}

absl::Status Trainer::RunEngine(uint64_t clock, StepSums& sums, absl::Duration& waited) {
  const int data_ranks = options_.mesh.size(kDataAxes);
  if (!IsVerified(*spec_, data_ranks, clock)) return engine_.Train(clock, *reader_, sums);
  StepVerifier verifier({.dataset = *job_.dataset,
                         .sampler = *sampler_,
                         .clock = clock_,
                         .coordinator = coordinator_,
                         .data_rank = DataRank(options_),
                         .data_ranks = data_ranks,
                         .processor = BitsDependOn()});
  const absl::Status status = engine_.TrainVerified(clock, *reader_, verifier, sums);
  FromCoordinator(verifier.coordinator_status()).IgnoreError();
  waited += verifier.waited();
  return status;
}

uint64_t Trainer::OwnExamples(uint64_t first, uint64_t end) const {
  uint64_t count = 0;
  for (uint64_t clock = first; clock < end; ++clock) {
    count +=
        static_cast<uint64_t>(sampler_->ShareSize(static_cast<int64_t>(clock), DataRank(options_)));
  }
  return count;
}

void Trainer::MeasureNoise(uint64_t clock, const StepSums& sums) {
  const absl::optional<double> norm = state_.counters().gradient_norm;
  if (!sums.first_micro_batch.has_value() || !norm.has_value()) return;
  const int64_t examples = sampler_->options().batches.At(static_cast<int64_t>(clock)).size;
  noise_scale_.Add(*sums.first_micro_batch,
                   {.squared_norm = *norm * *norm, .examples = static_cast<uint64_t>(examples)});
}

void Trainer::DescribeStep(uint64_t clock, const StepSums& sums, StepReport& step) const {
  const v1::TablesSchema& schema = *job_.schema;
  step.learning_rate = LearningRate(schema.schedule(), schema.optimizer().learning_rate(), clock,
                                    schema.total_steps(), RateFactor(clock));
  if (state_.loss_scaler() != nullptr) step.loss_scale = sums.loss_scale;
  step.gradient_norm = state_.counters().gradient_norm;
  if (sums.first_micro_batch.has_value()) step.noise_scale = noise_scale_.examples();
  const RouterSums& routers = sums.router_sums;
  if (routers.tokens == 0) return;
  // Where a job has such a loss, it is never 0.
  if (routers.auxiliary > 0) step.auxiliary_loss = routers.auxiliary / routers.tokens;
  if (routers.z > 0) step.z_loss = routers.z / routers.tokens;
  step.router_entropy = routers.entropy / routers.tokens;
}

void Trainer::Report(StepReport step, absl::Duration compared) {
  const StrategyCounters now = state_.counters();
  step.bytes_pushed = now.bytes_pushed - reported_.bytes_pushed;
  step.bytes_pulled = now.bytes_pulled - reported_.bytes_pulled;
  step.bytes_sent = now.bytes_sent - reported_.bytes_sent +
                    (now.tensor_bytes_sent - reported_.tensor_bytes_sent) +
                    (now.stage_bytes_sent - reported_.stage_bytes_sent);
  step.bytes_received = now.bytes_received - reported_.bytes_received +
                        (now.tensor_bytes_received - reported_.tensor_bytes_received) +
                        (now.stage_bytes_received - reported_.stage_bytes_received);
  step.other_bytes_sent = now.other_bytes_sent - reported_.other_bytes_sent;
  step.other_bytes_received = now.other_bytes_received - reported_.other_bytes_received;
  step.staleness_sum = now.staleness_sum - reported_.staleness_sum;
  // One step's sum is that step's staleness; the counter's maximum would never fall.
  step.staleness_max = step.staleness_sum;
  step.exposed_communication_seconds =
      now.exposed_seconds - reported_.exposed_seconds + absl::ToDoubleSeconds(compared);
  step.compute_seconds = std::max(
      0.0, step.training_seconds - step.waiting_seconds - step.exposed_communication_seconds);
  own_work_.compute_seconds += step.compute_seconds;
  reporter_.Add(step);
  reported_ = now;
}

}  // namespace muster
