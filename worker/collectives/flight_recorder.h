#ifndef MUSTER_WORKER_COLLECTIVES_FLIGHT_RECORDER_H_
#define MUSTER_WORKER_COLLECTIVES_FLIGHT_RECORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/metrics/time_bounds.h"
#include "common/trace/trace_recorder.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// One call as this rank saw it.
struct RecordedCall {
  // Number of the call among this rank's calls in the group, from 1.
  uint64_t sequence = 0;
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  uint64_t count = 0;
  std::string label;
  absl::Time started;
  // absl::InfiniteDuration() while the call is under way.
  absl::Duration duration = absl::InfiniteDuration();
  absl::Status status;
};

// Calls of one operation that have succeeded: how many there were in each bucket of
// common/metrics/time_bounds.h, and their times' sum.
struct CallTimes {
  std::array<uint64_t, kTimeBuckets> counts = {};
  double seconds = 0;
};

// Records the last calls of a rank in one group. Thread-safe. Recording a call takes well below a
// microsecond and allocates nothing, except for the first of an operation; labels are truncated to
// 23 bytes, between UTF-8 characters.
// Calls also go to the trace recorder of the thread that made this object, which outlives it.
class FlightRecorder {
 public:
  static constexpr size_t kCalls = 1000;

  explicit FlightRecorder(std::string group);

  // Returns the group's name, such as "world" or "data".
  const std::string& group() const { return group_; }

  // Records that call `sequence` begins. Calls begin in order and one at a time.
  void Begin(uint64_t sequence, const CollectiveCall& call);
  // Records that call `sequence` has ended. No effect if the call is not among the last kCalls.
  void End(uint64_t sequence, const absl::Status& status);

  // Returns at most kCalls calls, oldest first.
  std::vector<RecordedCall> Calls() const;

  // Returns the last call, if it has not ended.
  absl::optional<RecordedCall> UnderWay() const;

  // Returns the times of all calls so far, by operation; those without calls are left out.
  std::map<Collective, CallTimes> Times() const;

 private:
  static constexpr size_t kLabelBytes = 24;

  struct Entry {
    // 0 while the entry is unused.
    uint64_t sequence = 0;
    Collective kind = Collective::kBarrier;
    DType dtype = DType::kF32;
    Reduction reduction = Reduction::kSum;
    uint64_t count = 0;
    // Zero-terminated.
    char label[kLabelBytes] = {};
    int64_t started_ns = 0;
    // Negative while the call is under way.
    int64_t duration_ns = -1;
    absl::Status status;
  };

  static RecordedCall ToCall(const Entry& entry);

  const std::string group_;
  // Null: the calls are not traced.
  TraceRecorder* const trace_;
  // Held for a few stores, or while Calls copies the entries.
  mutable absl::Mutex mutex_;
  // kCalls entries; call n is at index n modulo kCalls.
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // Number of the last call that began.
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Collective, CallTimes> times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_FLIGHT_RECORDER_H_
