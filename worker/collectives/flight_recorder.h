#ifndef MUSTER_WORKER_COLLECTIVES_FLIGHT_RECORDER_H_
#define MUSTER_WORKER_COLLECTIVES_FLIGHT_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// One call as this rank saw it.
struct RecordedCall {
  // Counts the group's calls, from 1.
  uint64_t sequence = 0;
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  uint64_t count = 0;
  std::string label;
  absl::Time started;
  // absl::InfiniteDuration() while it is under way.
  absl::Duration duration = absl::InfiniteDuration();
  absl::Status status;
};

// The last calls of a rank in one group. Thread-safe; recording a call costs well below a
// microsecond and allocates nothing (labels are cut at 23 bytes,
// between characters of UTF-8).
class FlightRecorder {
 public:
  static constexpr size_t kCalls = 1000;

  explicit FlightRecorder(std::string group);

  // The group's name, such as "world" or "data".
  const std::string& group() const { return group_; }

  // The call of that sequence number begins. Calls begin in order and one at a time.
  void Begin(uint64_t sequence, const CollectiveCall& call);
  // It has ended. Without effect for one that is not among the last kCalls.
  void End(uint64_t sequence, const absl::Status& status);

  // Oldest first, at most kCalls.
  std::vector<RecordedCall> Calls() const;

 private:
  static constexpr size_t kLabelBytes = 24;

  struct Entry {
    // 0: none yet.
    uint64_t sequence = 0;
    Collective kind = Collective::kBarrier;
    DType dtype = DType::kF32;
    Reduction reduction = Reduction::kSum;
    uint64_t count = 0;
    // Ends with a zero.
    char label[kLabelBytes] = {};
    int64_t started_ns = 0;
    // Negative while it is under way.
    int64_t duration_ns = -1;
    absl::Status status;
  };

  const std::string group_;
  // Held for some stores, or for a copy of the entries by Calls.
  mutable absl::Mutex mutex_;
  // kCalls of them; a call's place is its sequence number modulo that.
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_FLIGHT_RECORDER_H_
