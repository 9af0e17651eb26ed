#include "common/trace/trace_event.h"

#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

int64_t TraceNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string NameOf(const TraceEvent& event) {
  const absl::string_view label(event.label, strnlen(event.label, sizeof(event.label)));
  if (!label.empty()) return std::string(label);
  const absl::string_view name = NameOf(event.kind);
  if (event.index == TraceEvent::kNoIndex) return std::string(name);
  return absl::StrCat(name, " ", event.index);
}

std::string TrackNameOf(const TraceEvent& event) {
  switch (event.track) {
    case TraceTrack::kTrainer:
      return "trainer";
    case TraceTrack::kRequests:
      return "requests";
    case TraceTrack::kCalls:
      return "collective calls";
    case TraceTrack::kDisk:
      return "disk";
    case TraceTrack::kPartition:
      break;
  }
  return absl::StrCat("partition ", event.track_number);
}

bool Overlaps(TraceTrack track) {
  return track != TraceTrack::kTrainer && track != TraceTrack::kPartition;
}

}  // namespace muster
