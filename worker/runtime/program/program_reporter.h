#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_REPORTER_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_REPORTER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/clock.h"
#include "common/history/series.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"
#include "worker/runtime/coordinator_client/numbered_reports.h"

namespace muster {

// A program's report of its training.
struct ProgramReport {
  // Number of steps made so far.
  uint64_t step = 0;
  // Figures of this step. Those that are not finite stay out of the history.
  std::map<std::string, double> metrics;
  // Examples since the last report.
  uint64_t examples = 0;
  // Figures on held-out data at this step. `loss` belongs to all others.
  std::map<std::string, double> evaluation;
};

// Reports a program's progress to the coordinator on a thread of its own: four times a second at
// most, or less often if the coordinator asks for that, and at least once, so that the task learns
// when it must end (numbered_reports.h). Thread-safe.
class ProgramReporter {
 public:
  // Metrics of a program that are kept beside its losses, those of evaluations included.
  static constexpr size_t kMostNames = 256;

  // Both outlive the reporter. The program begins at `first_step`. `warn` writes one line to the
  // job's log, from any thread.
  ProgramReporter(CoordinatorClient& coordinator, const Clock& clock, uint64_t first_step,
                  std::function<void(absl::string_view)> warn);
  // Ends without reporting what is left.
  ~ProgramReporter();

  // Takes a report, without waiting for the network. A report is for people and never ends the
  // program: what cannot be taken is left out, with one warning for each kind. These are a report
  // of a step before the last one, a metric whose name cannot be one, and one too many.
  void Add(const ProgramReport& report);

  // Notes what the program's processes have used.
  void SetUsage(double cpu_seconds, uint64_t peak_bytes);

  // Has the coordinator told what the program does while it reports nothing; an empty text says
  // that it reports again. For people. Does not wait for the network.
  void TellSilence(std::string text);

  // Blocks until a user asks for the last collective calls of the program's process, which
  // TellCollectives answers. Cancelled: `stop` was requested before.
  absl::Status AwaitCollectivesWanted(const std::stop_token& stop);

  // Has the coordinator told the process's last collective calls, which replace those before. Does
  // not wait for the network.
  void TellCollectives(v1::ReportCollectivesRequest calls);

  // Returns the time since the last further step, or since the beginning.
  absl::Duration SilentFor() const;

  // Returns Aborted or NotFound once the coordinator has answered so: the task must end.
  absl::Status status() const;

  // Reports what is left, in a few attempts, and ends.
  void Finish();

 private:
  // Figures that are still to be reported.
  struct Pending {
    uint64_t steps = 0;
    uint64_t examples = 0;
    double loss_sum = 0;
    uint64_t losses = 0;
    absl::Duration time;
    std::map<std::string, Series> series;
  };

  // The part of a report that is left out.
  enum class LeftOut { kStep, kName, kNumber };

  // Returns whether a metric is taken, `name` being that of its series; else notes why not.
  bool Takes(absl::string_view metric, std::string name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has Add warn, unless it has before.
  void Warn(LeftOut what, std::string warning) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddLocked(const ProgramReport& report) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  // Sends what is pending, or an empty report. Returns whether the coordinator has all of it.
  bool SendProgress();
  // Sends the reports that have no answer yet. Returns whether all have one now.
  bool SendReports();
  // Makes reports of what is pending, or an empty one.
  void MakeReports();
  // Sends this many figures of evaluations, if there are so many. One that the coordinator refuses
  // is dropped; one without an answer is kept. Returns false if it must be called again later, or
  // the task must end.
  bool SendEvaluations(size_t most);
  // Adds the figures of a report's evaluation.
  void AddEvaluation(const ProgramReport& report) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendSilence();
  // Sends the collective calls that are to be told. Returns false if they have to be sent again.
  bool SendCollectives();
  // Notes an answer. Returns whether the call succeeded.
  bool Take(const absl::Status& status);

  CoordinatorClient& coordinator_;
  const Clock& clock_;
  const std::function<void(absl::string_view)> warn_;

  // Used by the thread, and by Finish after it.
  NumberedReports reports_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t step_ ABSL_GUARDED_BY(mutex_);
  absl::Duration stepped_at_ ABSL_GUARDED_BY(mutex_);
  Pending pending_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
  // The kinds that were warned of, and warnings that are still to be written.
  std::set<LeftOut> warned_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
  // A figure each.
  std::deque<v1::ReportEvaluationRequest> evaluations_ ABSL_GUARDED_BY(mutex_);
  // The text that is to be told of the program's silence.
  absl::optional<std::string> silence_ ABSL_GUARDED_BY(mutex_);
  // A user asks for collective calls that nobody has begun to tell.
  bool collectives_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  // Least time between reports that the coordinator asks for.
  absl::Duration report_interval_ ABSL_GUARDED_BY(mutex_);
  // The collective calls that are to be told; absent: none.
  absl::optional<v1::ReportCollectivesRequest> collectives_ ABSL_GUARDED_BY(mutex_);
  double cpu_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_REPORTER_H_
