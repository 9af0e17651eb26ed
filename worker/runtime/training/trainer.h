#ifndef MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/clock.h"
#include "common/job/adjustments.h"
#include "common/mesh/mesh.h"
#include "worker/data/sampling/sampler.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"
#include "worker/runtime/coordinator_client/progress_reporter.h"
#include "worker/runtime/training/evaluator.h"
#include "worker/runtime/training/micro_batch_reader.h"
#include "worker/runtime/training/noise_scale.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/runtime/training/task_checkpoints.h"
#include "worker/strategy/training_state.h"

namespace muster {

namespace v1 {
class JobSpec;
class ReportEvaluationReply;
}  // namespace v1

struct TrainerOptions {
  uint32_t slot = 0;
  // The ranks that train together, and this task's. Its data rank has a share of the examples,
  // whose results one rank reports (Mesh::ReportsResults); rank 0 commits checkpoints and
  // logs evaluations.
  Mesh mesh;
  int rank = 0;
  // The all-reduce round; training ends when the coordinator wants a new one. 0 without rounds:
  // training ends when the coordinator wants the task to leave.
  uint64_t round = 0;
  // The number of clocks whose steps this task has reported in earlier rounds. It may repeat the
  // last of them for others, and does not report their results again.
  uint64_t reported_clock = 0;
  // All that was decided for the job so far.
  Adjustments adjustments;
  ProgressReporterOptions reporting;
  // The clock of the last existing checkpoint. No cut is taken at this clock or before.
  absl::optional<uint64_t> checkpoint_clock;
  // Writes one line to the job's log.
  std::function<void(absl::string_view)> log = [](absl::string_view) {};
  // Blocks for this long; false if the task must end.
  std::function<bool(absl::Duration)> wait = [](absl::Duration duration) {
    absl::SleepFor(duration);
    return true;
  };
};

// The slot's parameters, and the engine that computes with them. Both outlive the trainer.
struct TrainingParts {
  TrainingState& state;
  StepEngine& engine;
};

// Trains one slot, clock after clock, and reports its steps and evaluations. At a clock where a
// checkpoint or an evaluation is due, all slots take part before any goes on, also under SSP and
// ASP: a cut waits for all slots, and so does the answer to an evaluation. The answer may ask all
// for a checkpoint at the evaluation's clock, whether or not one is due there (see
// server/coordinator/checkpoints/best_checkpoint.h). A replacement task that starts at such a clock
// repeats that checkpoint or evaluation. Where something may be decided for the steps to come
// (MayAdjust), all slots ask the coordinator after the evaluation, and before the checkpoint, which
// so includes what was decided. A slot that a clock did not wait for (UpdateSpec.backup_workers)
// goes on at a later one, and takes part in the checkpoints and evaluations between.
// TaskCheckpoints tells who waits for a checkpoint's files.
class Trainer {
 public:
  // `job`, `parts`, `coordinator` and `clock` outlive the trainer. InvalidArgument, naming the
  // field: batch size, slots or metric do not fit.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const v1::JobSpec& spec, const TrainerOptions& options, const PreparedJob& job,
      const TrainingParts& parts, CoordinatorClient& coordinator, const Clock& clock);

  // Trains up to the last step, or to the evaluation that reaches the target. OutOfRange: the loss
  // or a gradient is infinite or NaN; that step's clock was not closed. Aborted, NotFound: the task
  // must end. Cancelled: the coordinator wants the tasks to meet again. Otherwise errors of the
  // data, the engine and the state.
  absl::Status Run();

  // Returns the coordinator's error if that ended Run, otherwise OK. So a caller can tell whether
  // Aborted or Cancelled came from the coordinator.
  const absl::Status& coordinator_status() const { return coordinator_status_; }

  // Returns the number of clocks whose steps this task has reported, as for `reported_clock`.
  uint64_t reported_clock() const { return reported_clock_; }

 private:
  enum class Next { kTrain, kStop };

  Trainer(const v1::JobSpec& spec, const TrainerOptions& options, const PreparedJob& job,
          std::unique_ptr<const Sampler> sampler, std::unique_ptr<Evaluator> evaluator,
          const TrainingParts& parts, CoordinatorClient& coordinator, const Clock& clock);

  absl::Status Train();
  // Keeps `status`, which came from the coordinator, and returns it.
  absl::Status FromCoordinator(absl::Status status);
  // Returns Cancelled if the task is to end, or to leave its round, before the step at `clock`.
  absl::Status CheckRound(uint64_t clock) const;
  // Takes the checkpoint and evaluation that all slots owe at this clock before they train on.
  absl::StatusOr<Next> Synchronize(uint64_t clock);
  // Keeps the coordinator's part of `status`, and returns `status`.
  absl::Status FromCheckpoints(absl::Status status);
  absl::StatusOr<v1::ReportEvaluationReply> Evaluate(uint64_t clock);
  // Takes the checkpoint of this clock.
  absl::Status Keep(uint64_t clock, SeriesPosition position);
  double SecondsSince(absl::Duration started) const;
  // Asks what is decided for the steps from `clock` on, and goes on with it.
  absl::Status Adjust(uint64_t clock);
  // Begins to read the batches of clocks from this one on.
  void ReadFrom(uint64_t clock);
  // Returns what the scheduled learning rate of the step at `clock` is multiplied by: for what was
  // decided, and for the step's batch.
  double RateFactor(uint64_t clock) const;
  absl::Status TrainStep(uint64_t clock);
  // Has the engine train the step at `clock`, compared with what other data ranks make of it where
  // that is due (IsVerified). Adds the time for which it waited for these to `waited`.
  absl::Status RunEngine(uint64_t clock, StepSums& sums, absl::Duration& waited);
  // Returns how many examples this data rank has of the batches of clocks `first` to `end` - 1.
  uint64_t OwnExamples(uint64_t first, uint64_t end) const;
  // Adds to the noise scale what the step at `clock` says of it.
  void MeasureNoise(uint64_t clock, const StepSums& sums);
  // Fills in what the rank that speaks for all tells of the step that was taken at `clock`.
  void DescribeStep(uint64_t clock, const StepSums& sums, StepReport& step) const;
  // Adds the state's counters since the last report. `compared`: see RunEngine.
  void Report(StepReport step, absl::Duration compared);

  const TrainerOptions options_;
  const std::unique_ptr<const v1::JobSpec> spec_;
  const PreparedJob& job_;
  const uint64_t checkpoint_every_;
  const uint64_t evaluate_every_;
  // True if this rank reports the results of its data rank.
  const bool reports_results_;
  // True if this rank reports how many tokens its experts got.
  const bool reports_loads_;
  // Null if the job only evaluates; made anew when something is decided.
  std::unique_ptr<const Sampler> sampler_;
  const std::unique_ptr<Evaluator> evaluator_;
  TrainingState& state_;
  StepEngine& engine_;
  CoordinatorClient& coordinator_;
  const Clock& clock_;
  TaskCheckpoints checkpoints_;
  uint64_t reported_clock_;
  Adjustments adjustments_;
  ProgressReporter reporter_;

  NoiseScale noise_scale_;
  // This task's own work on the steps since it last asked what is decided.
  struct {
    uint64_t examples = 0;
    double compute_seconds = 0;
  } own_work_;
  // Reads the sampler's batches, and the clock whose batch comes next.
  std::unique_ptr<MicroBatchReader> reader_;
  uint64_t reads_at_ = 0;
  // The state's counters at the last report.
  StrategyCounters reported_;
  absl::Status coordinator_status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_H_
