#ifndef MUSTER_COMMON_TRACE_TRACE_EVENT_H_
#define MUSTER_COMMON_TRACE_TRACE_EVENT_H_

#include <cstdint>
#include <limits>
#include <string>

#include "common/step/action.h"

namespace muster {

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
  ActionKind kind = ActionKind::kStep;
  // Zero-terminated.
  char label[24] = {};
};

// Returns the time on the machine's monotonic clock.
int64_t TraceNow();

// Returns names for people: an event's label, or its kind's name with its index, such as
// `forward 3`, and a track's, such as `partition 3`.
std::string NameOf(const TraceEvent& event);
std::string TrackNameOf(const TraceEvent& event);
// Returns whether events of the track may overlap.
bool Overlaps(TraceTrack track);

}  // namespace muster

#endif  // MUSTER_COMMON_TRACE_TRACE_EVENT_H_
