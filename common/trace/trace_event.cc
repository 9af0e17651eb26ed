#include "common/trace/trace_event.h"

#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

struct Names {
  const char* name;
  const char* category;
};

// The names of each TraceKind.
constexpr Names kNames[] = {
    {"step", "step"},
    {"begin step", "parameters"},
    {"load examples", "data"},
    {"prefetch rows", "parameters"},
    {"look up rows", "parameters"},
    {"acquire", "parameters"},
    {"release", "parameters"},
    {"forward", "compute"},
    {"begin backward", "gradients"},
    {"forward and backward", "compute"},
    {"check loss", "compute"},
    {"backward", "compute"},
    {"backward of input", "compute"},
    {"backward of weights", "compute"},
    {"send gradients", "gradients"},
    {"push rows", "gradients"},
    {"end step", "gradients"},
    {"wait", "wait"},
    {"optimizer", "optimizer"},
    {"checkpoint", "checkpoint"},
    {"evaluation", "evaluation"},
    {"pull", "pull"},
    {"row pull", "pull"},
    {"push", "push"},
    {"row push", "push"},
    {"close", "push"},
    {"clip exchange", "push"},
    {"cut", "checkpoint"},
    {"call", "collective"},
    {"batch", "server"},
    {"take push", "server"},
    {"take close", "server"},
    {"serve pull", "server"},
    {"log sync", "server"},
};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(TraceKind::kLast) + 1);

}  // namespace

int64_t TraceNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string NameOf(const TraceEvent& event) {
  const absl::string_view label(event.label, strnlen(event.label, sizeof(event.label)));
  if (!label.empty()) return std::string(label);
  const char* const name = kNames[static_cast<size_t>(event.kind)].name;
  if (event.index == TraceEvent::kNoIndex) return name;
  return absl::StrCat(name, " ", event.index);
}

absl::string_view CategoryOf(TraceKind kind) { return kNames[static_cast<size_t>(kind)].category; }

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
