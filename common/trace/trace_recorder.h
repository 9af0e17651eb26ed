#ifndef MUSTER_COMMON_TRACE_TRACE_RECORDER_H_
#define MUSTER_COMMON_TRACE_TRACE_RECORDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/trace/trace_event.h"

namespace muster {

// Keeps the events of some steps of one job in a ring of a fixed size, from which one thread takes
// them while others add. Where the ring is full, new events are left out and counted. While
// recording is off an event costs one relaxed load. While it is on, an event costs some atomic
// operations and allocates nothing; the ring is allocated by the first Start.
//
//   a task    Start arms the recorder; it is on from BeginStep of the first step that is asked for
//             to EndStep of the last
//   a server  StartNow turns it on until Stop; events of other steps are left out, not counted
//
// Record, on and step may be called by any thread; BeginStep and EndStep by the trainer's; the
// other methods by one thread at a time.
class TraceRecorder {
 public:
  // Enough for a quarter of a second of a task with steps of a millisecond.
  static constexpr size_t kEvents = size_t{1} << 15;

  // The steps from `first` up to `end`, without that one.
  struct Steps {
    uint64_t first = 0;
    uint64_t end = 0;
  };

  explicit TraceRecorder(size_t most_events = kEvents);
  ~TraceRecorder();

  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Returns the step of the last BeginStep; after StartNow a step that is never kept.
  uint64_t step() const { return step_.load(std::memory_order_relaxed); }

  // Keeps the event if its step is one of those asked for.
  void Record(const TraceEvent& event);

  // Tell which step the task makes.
  void BeginStep(uint64_t step);
  void EndStep();

  // Forgets what is kept, and asks for these steps of this job.
  void Start(absl::string_view job_id, Steps steps);
  void StartNow(absl::string_view job_id, Steps steps);
  // Ends recording. Events stay until they are taken.
  void Stop();
  // Returns whether all steps that Start asked for are over.
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  // Returns whether the recorder is on and records this job.
  bool Records(absl::string_view job_id) const;

  // Takes the oldest events, `most` at most, and adds them to `events`.
  void Take(size_t most, std::vector<TraceEvent>& events);
  // Returns the number of events left out since Start.
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  // A place in the ring. Place p of round r is free to write while `turn` is p + r * size, and
  // holds an event to take while `turn` is one more.
  struct Place {
    std::atomic<uint64_t> turn;
    TraceEvent event;
  };

  void Prepare(absl::string_view job_id, Steps steps);

  const size_t size_;
  std::unique_ptr<Place[]> memory_;
  // Null before the first Start.
  std::atomic<Place*> ring_{nullptr};
  std::atomic<bool> on_{false};
  // A task waits for its steps, or makes them.
  std::atomic<bool> armed_{false};
  std::atomic<bool> finished_{false};
  std::atomic<uint64_t> first_{0};
  std::atomic<uint64_t> end_{0};
  std::atomic<uint64_t> step_{0};
  std::atomic<uint64_t> dropped_{0};
  // Number of events ever added, and ever taken.
  std::atomic<uint64_t> added_{0};
  uint64_t taken_ = 0;
  mutable absl::Mutex mutex_;
  std::string job_id_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRACE_TRACE_RECORDER_H_
