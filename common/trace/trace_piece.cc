#include "common/trace/trace_piece.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/step/action.h"
#include "common/text/utf8.h"
#include "proto/trace.pb.h"

namespace muster {

void AddEvents(absl::Span<const TraceEvent> events, v1::TracePiece& piece) {
  absl::flat_hash_map<std::pair<std::string, ActionKind>, uint32_t> names;
  absl::flat_hash_map<std::string, uint32_t> tracks;
  if (events.empty()) return;
  int64_t begin = events[0].start_ns;
  for (const TraceEvent& event : events) begin = std::min(begin, event.start_ns);
  piece.set_begin_ns(begin);
  for (const TraceEvent& event : events) {
    std::string name = ToUtf8(NameOf(event));
    const auto [named, new_name] =
        names.try_emplace({std::move(name), event.kind}, piece.names_size());
    if (new_name) {
      v1::TraceName& added = *piece.add_names();
      added.set_name(named->first.first);
      added.set_category(std::string(CategoryOf(event.kind)));
    }
    const auto [track, new_track] = tracks.try_emplace(TrackNameOf(event), piece.tracks_size());
    if (new_track) {
      v1::TraceTrack& added = *piece.add_tracks();
      added.set_name(track->first);
      added.set_overlapping(Overlaps(event.track));
    }
    v1::TraceEvent& added = *piece.add_events();
    added.set_name(named->second);
    added.set_track(track->second);
    added.set_start_ns(static_cast<uint64_t>(event.start_ns - begin));
    added.set_duration_ns(static_cast<uint64_t>(std::max<int64_t>(0, event.duration_ns)));
    added.set_step(event.step);
    added.set_bytes(event.bytes);
  }
}

}  // namespace muster
