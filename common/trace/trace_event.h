#ifndef MUSTER_COMMON_TRACE_TRACE_EVENT_H_
#define MUSTER_COMMON_TRACE_TRACE_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// The kind of an event. Each has a name and a category in trace_event.cc.
enum class TraceKind : uint8_t {
  kStep,
  // Actions of a step (worker/runtime/training/step_plan.h).
  kBeginStep,
  kLoad,
  kPrefetchRows,
  kLookUpRows,
  kAcquire,
  kRelease,
  kForward,
  kBeginBackward,
  kLastUnit,
  kCheckLoss,
  kBackward,
  kBackwardInput,
  kBackwardWeights,
  kSendGradients,
  kPushRows,
  kEndStep,
  // A task between or within steps.
  kWait,
  kOptimizer,
  kCheckpoint,
  kEvaluation,
  // Requests to servers, from sending to answer.
  kPull,
  kRowPull,
  kPush,
  kRowPush,
  kClose,
  kClip,
  kCut,
  // A collective call, whose label is its name.
  kCollective,
  // Parts of a server's work.
  kBatch,
  kTakePush,
  kTakeClose,
  kServePull,
  kLogSync,
  kLast = kLogSync,
};

// Where an event is shown. Events of kTrainer, or of kPartition with the same number, are of one
// thread at a time, and lie one after another or in one another. Those of other tracks may overlap.
enum class TraceTrack : uint8_t { kTrainer, kRequests, kCalls, kPartition, kDisk };

// One event, as a process keeps it.
struct TraceEvent {
  static constexpr uint32_t kNoIndex = std::numeric_limits<uint32_t>::max();

  // On the machine's monotonic clock (TraceNow).
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint64_t step = 0;
  // Payload that it moved; 0: none.
  uint64_t bytes = 0;
  // A unit or a partition.
  uint32_t index = kNoIndex;
  // Tells tracks of one kind apart: a partition.
  uint16_t track_number = 0;
  TraceTrack track = TraceTrack::kTrainer;
  TraceKind kind = TraceKind::kStep;
  // Zero-terminated.
  char label[24] = {};
};

// Returns the time on the machine's monotonic clock.
int64_t TraceNow();

// Returns names for people: an event's with its label or index, such as `forward 3`, a kind's
// category, and a track's, such as `partition 3`.
std::string NameOf(const TraceEvent& event);
absl::string_view CategoryOf(TraceKind kind);
std::string TrackNameOf(const TraceEvent& event);
// Returns whether events of the track may overlap.
bool Overlaps(TraceTrack track);

}  // namespace muster

#endif  // MUSTER_COMMON_TRACE_TRACE_EVENT_H_
