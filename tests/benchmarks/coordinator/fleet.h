#ifndef MUSTER_TESTS_BENCHMARKS_COORDINATOR_FLEET_H_
#define MUSTER_TESTS_BENCHMARKS_COORDINATOR_FLEET_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/benchmarks/coordinator/timers.h"

namespace muster {

// Returns the time in nanoseconds of a clock that all processes of the machine share.
int64_t SharedNanoseconds();

// What happens to a simulated daemon, or to its task.
enum class FleetEvent { kAnswered, kOrdered, kMet, kReported };
inline constexpr int kFleetEvents = 4;

// What the simulated daemons of one process share: when something first happened to each since the
// last mark, totals, and how tasks report. Thread-safe.
class Fleet {
 public:
  struct Options {
    // host:port.
    std::string coordinator;
    // Time at which all tasks of the cluster began their first step, of SharedNanoseconds.
    int64_t first_step = 0;
  };

  explicit Fleet(Options options) : options_(std::move(options)) {}

  const std::string& coordinator() const { return options_.coordinator; }
  Timers& timers() { return timers_; }

  // Returns the number of a new daemon.
  int AddDaemon();
  // Notes an event of this daemon, unless it is not the first of its kind since the mark.
  void Note(FleetEvent event, int daemon);
  // Forgets all events so far.
  void Mark();
  // Blocks until `count` daemons have had the event since the mark. Returns the time at which the
  // last of these had it. DEADLINE_EXCEEDED says how many had it, and the last error.
  absl::StatusOr<int64_t> Await(FleetEvent event, size_t count, absl::Duration timeout);

  // Notes that a call failed in a way that the protocol does not foresee.
  void NoteError(absl::string_view call, const absl::Status& status);

  // Returns the step that all tasks have made by now: they make one in 25 ms.
  uint64_t StepNow() const;

  // Tasks report progress only while this is so.
  void SetReporting(bool reports) { reports_ = reports; }
  bool reports() const { return reports_; }

  // Totals since the start.
  std::atomic<uint64_t> heartbeats = 0;
  std::atomic<uint64_t> progress_reports = 0;
  std::atomic<uint64_t> errors = 0;

 private:
  struct Happened {
    // By daemon.
    std::vector<bool> had;
    // Times of the first events, in order.
    std::vector<int64_t> times;
  };

  const Options options_;
  std::atomic<bool> reports_ = false;
  absl::Mutex mutex_;
  int daemons_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<Happened, kFleetEvents> happened_ ABSL_GUARDED_BY(mutex_);
  std::string last_error_ ABSL_GUARDED_BY(mutex_);
  Timers timers_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COORDINATOR_FLEET_H_
