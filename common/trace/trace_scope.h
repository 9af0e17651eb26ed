#ifndef MUSTER_COMMON_TRACE_TRACE_SCOPE_H_
#define MUSTER_COMMON_TRACE_TRACE_SCOPE_H_

#include <cstdint>
#include <limits>

#include "absl/strings/string_view.h"
#include "common/step/action.h"
#include "common/trace/trace_event.h"
#include "common/trace/trace_recorder.h"

namespace muster {

// What a thread records for: so code deep down records events without being handed a recorder. A
// thread that nobody has bound records nothing.
struct TraceBound {
  static constexpr uint64_t kStepOfRecorder = std::numeric_limits<uint64_t>::max();

  TraceRecorder* recorder = nullptr;
  // Step of this thread's events; kStepOfRecorder: TraceRecorder::step.
  uint64_t step = kStepOfRecorder;
  uint16_t track_number = 0;
  TraceTrack track = TraceTrack::kTrainer;
};
inline constinit thread_local TraceBound trace_bound;

// Binds this thread to a recorder, which outlives the binding, for as long as the object lives.
// Null: the thread records nothing meanwhile.
class TraceBinding {
 public:
  TraceBinding(TraceRecorder* recorder, TraceTrack track, uint16_t track_number = 0)
      : before_(trace_bound) {
    trace_bound = {.recorder = recorder, .track_number = track_number, .track = track};
  }
  ~TraceBinding() { trace_bound = before_; }

  TraceBinding(const TraceBinding&) = delete;
  TraceBinding& operator=(const TraceBinding&) = delete;

 private:
  const TraceBound before_;
};

// Returns this thread's recorder if it is on, otherwise null.
inline TraceRecorder* TracingHere() {
  TraceRecorder* const recorder = trace_bound.recorder;
  return recorder != nullptr && recorder->on() ? recorder : nullptr;
}

// Records an event of this thread that lasts as long as the object. With a step, events within it
// are of this step, too.
class TraceScope {
 public:
  explicit TraceScope(ActionKind kind, uint32_t index = TraceEvent::kNoIndex)
      : recorder_(TracingHere()), kind_(kind), index_(index) {
    if (recorder_ != nullptr) Begin(trace_bound.step);
  }
  TraceScope(ActionKind kind, uint64_t step, uint64_t bytes)
      : recorder_(TracingHere()), kind_(kind), bytes_(bytes) {
    if (recorder_ != nullptr) Begin(step);
  }
  ~TraceScope() {
    if (recorder_ != nullptr) End();
  }

  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  void Begin(uint64_t step);
  void End();

  TraceRecorder* const recorder_;
  const ActionKind kind_;
  const uint32_t index_ = TraceEvent::kNoIndex;
  const uint64_t bytes_ = 0;
  uint64_t step_before_;
  int64_t start_ns_;
};

// A step of this thread's task, for as long as the object lives.
class TraceStep {
 public:
  explicit TraceStep(uint64_t step);
  ~TraceStep();

  TraceStep(const TraceStep&) = delete;
  TraceStep& operator=(const TraceStep&) = delete;

 private:
  TraceRecorder* const recorder_;
  int64_t start_ns_ = 0;
};

// An event that begins on a bound thread and may end on any, such as a request. Copies end once
// each; end one of them.
class TraceSpan {
 public:
  // An event that is not recorded.
  TraceSpan() = default;
  // `recorder` is the thread's (TracingHere), or one that was taken from a bound thread before and
  // is on; null: the event is not recorded.
  TraceSpan(TraceRecorder* recorder, TraceTrack track, ActionKind kind,
            uint32_t index = TraceEvent::kNoIndex);

  // Records the event. The recorder still lives.
  void End(uint64_t bytes) const;

 private:
  TraceRecorder* recorder_ = nullptr;
  TraceTrack track_ = TraceTrack::kRequests;
  ActionKind kind_ = ActionKind::kPull;
  uint32_t index_ = TraceEvent::kNoIndex;
  uint64_t step_ = 0;
  int64_t start_ns_ = 0;
};

// Records a collective call that ends now. The label is cut to what an event holds.
void TraceCall(TraceRecorder& recorder, absl::string_view label, int64_t duration_ns,
               uint64_t bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_TRACE_TRACE_SCOPE_H_
