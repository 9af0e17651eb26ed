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
#include "worker/data/sampling/sampler.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"
#include "worker/runtime/coordinator_client/progress_reporter.h"
#include "worker/runtime/training/evaluator.h"
#include "worker/runtime/training/micro_batch_reader.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/step_engine.h"
#include "worker/runtime/training/task_checkpoints.h"
#include "worker/strategy/training_state.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

struct TrainerOptions {
  uint32_t slot = 0;
  // How many train together, and this one's place among them; 0: all of the job's slots, each in
  // its own place.
  uint32_t world_size = 0;
  uint32_t rank = 0;
  // By all-reduce, the meeting that brought them together: training ends where the coordinator
  // wants them to meet anew. 0: there is none.
  uint64_t round = 0;
  ProgressReporterOptions reporting;
  // The clock of the last checkpoint that there is: no cut is taken there, or before.
  absl::optional<uint64_t> checkpoint_clock;
  // One line for the job's log.
  std::function<void(absl::string_view)> log = [](absl::string_view) {};
  // Blocks for a while. False: the task is to end.
  std::function<bool(absl::Duration)> wait = [](absl::Duration duration) {
    absl::SleepFor(duration);
    return true;
  };
};

// How a slot computes, and where its parameters are. Both outlive the trainer.
struct TrainingParts {
  TrainingState& state;
  StepEngine& engine;
};

// One slot's training, clock after clock. At a clock where a
// checkpoint or an evaluation is due, all slots take part before any of them goes on, also under
// SSP and ASP: a cut waits for all, and so does the answer to an evaluation. The files of a
// checkpoint are waited for at the end alone (see TaskCheckpoints). A slot that is taken over
// begins at such a clock with the same again.
class Trainer {
 public:
  // What is lent must outlive the trainer. InvalidArgument: batch size, slots or metric do not fit
  // (names the field).
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const v1::JobSpec& spec, const TrainerOptions& options, const PreparedJob& job,
      const TrainingParts& parts, CoordinatorClient& coordinator, const Clock& clock);

  // Trains to the end: the last step, or the evaluation that reached the target. OutOfRange: the
  // loss or a gradient became infinite or no number; nothing of that step was closed. Aborted,
  // NotFound: the task must end. Cancelled: the coordinator wants the tasks to meet anew. Otherwise
  // errors of the data, the engine and the state.
  absl::Status Run();

  // What the coordinator said, where that ended Run; otherwise OK. Tells its Aborted and Cancelled
  // from those of the parts.
  const absl::Status& coordinator_status() const { return coordinator_status_; }

 private:
  enum class Next { kTrain, kStop };

  Trainer(const v1::JobSpec& spec, const TrainerOptions& options, const PreparedJob& job,
          std::unique_ptr<const Sampler> sampler, std::unique_ptr<Evaluator> evaluator,
          const TrainingParts& parts, CoordinatorClient& coordinator, const Clock& clock);

  absl::Status Train();
  // Notes and returns what came from the coordinator.
  absl::Status FromCoordinator(absl::Status status);
  absl::Status CheckRound() const;
  // What all slots do together at a clock before they train on.
  absl::StatusOr<Next> Synchronize(uint64_t clock);
  // Notes what came from the coordinator, and returns the status.
  absl::Status FromCheckpoints(absl::Status status);
  absl::StatusOr<Next> Evaluate(uint64_t clock);
  absl::Status TrainStep(uint64_t clock, MicroBatchReader& reader);
  // The loss scale goes on where the state had it, and is with it from then on.
  void BeginLossScale();
  void KeepLossScale();
  // Adds what the state counted.
  void Report(StepReport step);

  const TrainerOptions options_;
  const PreparedJob& job_;
  const uint64_t checkpoint_every_;
  const uint64_t evaluate_every_;
  const std::unique_ptr<const Sampler> sampler_;
  const std::unique_ptr<Evaluator> evaluator_;
  TrainingState& state_;
  StepEngine& engine_;
  CoordinatorClient& coordinator_;
  const Clock& clock_;
  TaskCheckpoints checkpoints_;
  ProgressReporter reporter_;

  // At the last report.
  StrategyCounters reported_;
  absl::Status coordinator_status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_H_
