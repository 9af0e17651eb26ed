#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROGRESS_REPORTER_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROGRESS_REPORTER_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/history/series.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"
#include "worker/runtime/coordinator_client/numbered_reports.h"

namespace muster {

namespace v1 {
class CollectiveTimes;
class TraceOrder;
}  // namespace v1

// The results of one or several training steps.
struct StepReport {
  // Number of closed clocks, including the step's.
  uint64_t clock = 0;
  double loss_sum = 0;
  // Divisor of loss_sum for the mean: MicroBatch::loss_weight.
  uint64_t loss_weight = 0;
  uint64_t examples = 0;
  // Examples of steps that did not wait for this task (UpdateSpec.backup_workers).
  uint64_t dropped_examples = 0;
  uint64_t steps = 0;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  // Payload bytes of collective calls: for dense gradients, and for everything else.
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t other_bytes_sent = 0;
  uint64_t other_bytes_received = 0;
  uint64_t staleness_sum = 0;
  uint64_t staleness_max = 0;
  // Time in these steps, without evaluations and checkpoints. Its parts: this process's own work,
  // waiting for the data plane, waiting for training data.
  double training_seconds = 0;
  double compute_seconds = 0;
  double exposed_communication_seconds = 0;
  double waiting_seconds = 0;
  // The part of training_seconds that went to steps that an earlier round had reported, and their
  // number, which `steps` does not include.
  double redone_seconds = 0;
  uint64_t redone_steps = 0;
  // Time beside these steps in which training stood still for an evaluation, or a checkpoint.
  double evaluation_seconds = 0;
  double checkpoint_seconds = 0;
  // Number of tokens in the examples; 0: they are not text.
  uint64_t tokens = 0;
  // Values of one step for the job's history; absent where another task reports them, or the job
  // has none.
  absl::optional<double> learning_rate;
  absl::optional<double> gradient_norm;
  absl::optional<double> noise_scale;
  absl::optional<double> loss_scale;
  // Models with experts have means over the task's own tokens and blocks.
  absl::optional<double> auxiliary_loss;
  absl::optional<double> z_loss;
  absl::optional<double> router_entropy;
  // [blocks, ProgressReporterOptions::experts]: how many of the task's tokens each expert got; 0 in
  // blocks that are dense or another stage's. Empty: there are none, or another task reports them.
  std::vector<uint64_t> expert_loads;
};

struct ProgressReporterOptions {
  // The all-reduce round; 0 without all-reduce. A task has one reporter in a round.
  uint64_t round = 0;
  // Time between reports of steps, unless the coordinator asks for a longer one.
  absl::Duration interval = absl::Milliseconds(250);
  // Longest time without a report, even if no step ended, since the reply may ask for something; an
  // interval that is longer than this ends no sooner.
  absl::Duration poll = absl::InfiniteDuration();
  // The experts of each block that has some.
  int64_t experts = 0;
  // True if a number of dropped choices follows those of each block's experts.
  bool drops_choices = false;
  // Checkpoints come at multiples of this clock; values from before and after one are not joined.
  // 0: there are no checkpoints.
  uint64_t checkpoint_every = 0;
  // Fills in the task's last collective calls when somebody wants to see them. Called on the
  // reporter's thread or in Flush and Finish.
  std::function<void(v1::ReportCollectivesRequest&)> collectives;
  // Adds the times of all of the task's collective calls in this round, of which reports have what
  // is new, and a call that lasts. Called like `collectives`, for each report.
  std::function<void(v1::ReportProgressRequest&)> add_calls;
  // Takes the last round that the coordinator wants tasks to leave, once there is one; may be null.
  // Called as `collectives`; does not block.
  std::function<void(uint64_t round)> meet_after;
  // Takes the last round that has lost a task, once there is one; may be null. Called as
  // `collectives`; does not block.
  std::function<void(uint64_t round)> round_lost;
  // Called once the task is to end after a clock that it has closed already, and later again; may
  // be null. Called as `collectives`; does not block.
  std::function<void()> end_at_once;
  // Takes the order to trace of each reply, which has none if no trace stands; may be null. Called
  // as `collectives`; does not block.
  std::function<void(const v1::TraceOrder&)> traced;
};

// Reports progress to the coordinator on its own thread, at most once per interval
// (numbered_reports.h). A report has the values of each step up to 64 steps, and joins neighbouring
// steps if there are more. A report's loss covers all steps since the report before. The final
// report's loss is the last step's alone, so that equal runs end with equal losses whenever reports
// were sent. Thread-safe.
class ProgressReporter {
 public:
  // `coordinator` outlives the reporter.
  explicit ProgressReporter(CoordinatorClient& coordinator, ProgressReporterOptions options = {});
  // Ends without reporting what is left.
  ~ProgressReporter();

  // Adds one step (or none, to report a task's first clock, or time beside steps). Cheap; does not
  // wait for the network.
  void Add(const StepReport& step);

  // Returns Aborted or NotFound once the coordinator has answered so: the task must end.
  absl::Status status() const;

  // Returns the time between reports of steps.
  absl::Duration interval() const;

  // Returns the highest round that the coordinator wants tasks to leave; 0 if there is none.
  uint64_t meet_after_round() const;

  // Returns the clock after which the task is to end; 0 if it goes on.
  uint64_t end_after_clock() const;

  // Reports pending progress and the process's usage now, even without a new step, so that the
  // coordinator is up to date before the task's next call. Makes one attempt, and blocks for it.
  void Flush();

  // Reports what is left with the last step's loss, in a few attempts at most, and ends.
  void Finish();

 private:
  enum class Empty { kKeep, kSend };

  // Loads of experts wait until there is a report for each so many numbers of them: those of many
  // large models' tasks would be most of what the coordinator reads.
  static constexpr size_t kLoadsOfReport = 2048;
  static constexpr size_t kMostPoints = 64;
  static constexpr size_t kSeries = 8;
  // The progress that is still to be reported.
  struct Pending {
    StepReport sums;
    // Sum of the divisors of the losses in `series`.
    double loss_weight = 0;
    // The values, in the order of kSeriesNames.
    std::vector<Series> series = std::vector<Series>(kSeries, Series(kMostPoints));
  };

  v1::ReportProgressRequest ToRequest(uint64_t clock, const Pending& report) const;

  void Run();
  // Sends the report without an answer if there is one, and then pending progress. Returns false if
  // nothing was to be sent or sending failed.
  bool Send(Empty empty);
  // Makes a report of pending progress. Returns false if nothing is pending.
  bool MakeReport(Empty empty) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sending_);
  // Sends reports that have no answer. Returns false if one has none still.
  bool SendReports() ABSL_EXCLUSIVE_LOCKS_REQUIRED(sending_);
  // Replaces the times of all collective calls by those of calls that no report has.
  void LeaveNewTimes(v1::ReportProgressRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sending_);
  // Does what the reply to a report asks for.
  void Answer(const v1::ReportProgressReply& reply);
  void TakeStatus(const absl::Status& status);

  CoordinatorClient& coordinator_;
  const ProgressReporterOptions options_;

  // Held while a report is sent: one at a time, in order.
  absl::Mutex sending_ ABSL_ACQUIRED_BEFORE(mutex_);
  NumberedReports reports_ ABSL_GUARDED_BY(sending_);
  // The times of collective calls in all reports that were made.
  std::vector<v1::CollectiveTimes> reported_times_ ABSL_GUARDED_BY(sending_);
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Pending pending_ ABSL_GUARDED_BY(mutex_);
  // Number of reports since one had loads of experts.
  size_t reports_without_loads_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last added step; last_.steps is 0 if there was none.
  StepReport last_ ABSL_GUARDED_BY(mutex_);
  // The highest clock that was added.
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t meet_after_round_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t end_after_clock_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration interval_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROGRESS_REPORTER_H_
