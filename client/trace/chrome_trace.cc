#include "client/trace/chrome_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "client/terminal/format.h"
#include "common/base/status_macros.h"
#include "common/text/dump_json.h"

namespace muster {
namespace {

// Bytes that are written at a time.
constexpr size_t kPartBytes = 1 << 16;

std::string Quoted(absl::string_view text) { return DumpJson(nlohmann::json(std::string(text))); }

}  // namespace

std::string NameOf(const v1::TraceProcess& process) {
  if (!process.server_id().empty()) return absl::StrCat("server ", process.server_id());
  std::string name = absl::StrCat("slot ", process.slot());
  if (!process.worker_id().empty()) absl::StrAppend(&name, " (", process.worker_id(), ")");
  // Only a slot whose task was replaced has several.
  if (process.incarnation() > 1) absl::StrAppend(&name, ", incarnation ", process.incarnation());
  return name;
}

std::vector<size_t> DivideIntoLanes(const std::vector<std::pair<int64_t, int64_t>>& intervals) {
  std::vector<size_t> lanes;
  std::vector<int64_t> ends;
  for (const auto& [begin, end] : intervals) {
    size_t lane = 0;
    while (lane < ends.size() && ends[lane] > begin) ++lane;
    if (lane == ends.size()) ends.push_back(end);
    ends[lane] = end;
    lanes.push_back(lane);
  }
  return lanes;
}

absl::Status ChromeTrace::Add(const v1::TraceChunk& chunk) {
  if (chunk.has_order()) first_ = chunk;
  if (!chunk.has_piece()) {
    if (!chunk.has_order()) last_ = chunk;
    return absl::OkStatus();
  }
  const v1::TracePiece& piece = chunk.piece();
  Process& process = processes_[{chunk.source().server_id(),
                                 {chunk.source().slot(), chunk.source().incarnation()}}];
  process.process = chunk.source();
  if (piece.clock_error_ns() > 0) {
    process.offset_ns = piece.clock_offset_ns();
    process.error_ns = piece.clock_error_ns();
  }
  process.dropped = piece.dropped();
  std::vector<uint32_t> names;
  for (const v1::TraceName& name : piece.names()) {
    // The host only queues what a device computes.
    const bool queued = first_.on_device() && name.category() == "compute";
    const std::pair<std::string, std::string> known = {
        Quoted(absl::StrCat(name.name(), queued ? " (queued)" : "")), Quoted(name.category())};
    const auto [it, added] = named_.try_emplace(known, static_cast<uint32_t>(names_.size()));
    if (added) names_.push_back(known);
    names.push_back(it->second);
  }
  for (const v1::TraceEvent& event : piece.events()) {
    if (event.name() >= names.size() ||
        event.track() >= static_cast<uint32_t>(piece.tracks_size())) {
      return absl::DataLossError(
          absl::StrCat("piece ", piece.number(), " of ", NameOf(chunk.source()),
                       " has an event without a name or a track: name ", event.name(), " of ",
                       names.size(), ", track ", event.track(), " of ", piece.tracks_size()));
    }
    const v1::TraceTrack& named = piece.tracks(static_cast<int>(event.track()));
    Track& track = process.tracks[named.name()];
    track.overlapping = named.overlapping();
    track.events.push_back({.start_ns = piece.begin_ns() + static_cast<int64_t>(event.start_ns()),
                            .duration_ns = event.duration_ns(),
                            .step = event.step(),
                            .bytes = event.bytes(),
                            .name = names[event.name()]});
    ++events_;
  }
  return absl::OkStatus();
}

uint64_t ChromeTrace::dropped() const {
  uint64_t dropped = 0;
  for (const auto& [key, process] : processes_) dropped += process.dropped;
  return dropped;
}

uint64_t ChromeTrace::clock_error_ns() const {
  uint64_t error = 0;
  for (const auto& [key, process] : processes_) error = std::max(error, process.error_ns);
  return error;
}

std::vector<std::string> ChromeTrace::uncompared() const {
  std::vector<std::string> names;
  for (const auto& [key, process] : processes_) {
    if (process.error_ns == 0 && !process.tracks.empty()) names.push_back(NameOf(process.process));
  }
  return names;
}

// Writes JSON values of the list of events.
class ChromeTrace::Writer {
 public:
  Writer(const ChromeTrace& trace, const std::function<absl::Status(absl::string_view)>& write)
      : trace_(trace), write_(write) {}

  absl::Status Run() {
    text_ = absl::StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":", DumpJson(OtherData()),
                         ",\"traceEvents\":[\n");
    std::vector<const Process*> in_order;
    for (const auto& [key, process] : trace_.processes_) in_order.push_back(&process);
    int pid = 0;
    for (const Process* process : in_order) MUSTER_RETURN_IF_ERROR(Put(*process, ++pid));
    absl::StrAppend(&text_, "\n]}\n");
    return write_(text_);
  }

 private:
  nlohmann::json OtherData() const {
    nlohmann::json data;
    data["job"] = trace_.first_.order().job_id();
    data["first_step"] = trace_.first_.order().first_step();
    data["end_step"] = trace_.first_.order().end_step();
    data["clock"] = "the coordinator's, in microseconds since the trace was asked for";
    nlohmann::json errors = nlohmann::json::object(), dropped = nlohmann::json::object();
    for (const auto& [key, process] : trace_.processes_) {
      const std::string name = NameOf(process.process);
      errors[name] = static_cast<double>(process.error_ns) / 1e3;
      if (process.dropped > 0) dropped[name] = process.dropped;
    }
    data["clock_error_us"] = errors;
    data["uncompared_clocks"] = trace_.uncompared();
    data["events_left_out"] = dropped;
    data["pieces_lost"] = trace_.last_.lost_pieces();
    data["missing"] = nlohmann::json::array();
    for (const v1::TraceProcess& process : trace_.last_.missing()) {
      data["missing"].push_back(NameOf(process));
    }
    data["ended_because"] = trace_.last_.ended_because();
    if (trace_.first_.on_device()) {
      data["queued"] = "tasks compute on devices: such events are the time to queue the work";
    }
    return data;
  }

  absl::Status Put(const Process& process, int pid) {
    const std::string name = NameOf(process.process);
    Meta(pid, 0, "process_name", absl::StrCat("{\"name\":", Quoted(name), "}"));
    Meta(pid, 0, "process_sort_index",
         absl::StrCat("{\"sort_index\":", process.process.server_id().empty() ? pid : 10'000 + pid,
                      "}"));
    const std::string error =
        process.error_ns == 0
            ? "clock not compared"
            : absl::StrCat("clock right within ",
                           FormatTime(static_cast<double>(process.error_ns) / 1e9));
    Meta(pid, 0, "process_labels",
         absl::StrCat("{\"labels\":",
                      Quoted(process.dropped == 0
                                 ? error
                                 : absl::StrCat(error, ", ", process.dropped, " events left out")),
                      "}"));
    int tid = 0;
    // What threads did comes before what was under way.
    std::vector<const std::pair<const std::string, Track>*> tracks;
    for (const auto& track : process.tracks) tracks.push_back(&track);
    std::stable_partition(tracks.begin(), tracks.end(),
                          [](const auto* track) { return !track->second.overlapping; });
    for (const auto* named : tracks) {
      const auto& [track_name, track] = *named;
      std::vector<Event> events = track.events;
      // Outer events before those within them.
      std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
        return a.duration_ns > b.duration_ns;
      });
      std::vector<size_t> lanes(events.size(), 0);
      if (track.overlapping) {
        std::vector<std::pair<int64_t, int64_t>> intervals;
        for (const Event& event : events) {
          intervals.emplace_back(event.start_ns,
                                 event.start_ns + static_cast<int64_t>(event.duration_ns));
        }
        lanes = DivideIntoLanes(intervals);
      }
      const size_t count = events.empty() ? 0 : *std::max_element(lanes.begin(), lanes.end()) + 1;
      for (size_t lane = 0; lane < count; ++lane) {
        Meta(pid, tid + static_cast<int>(lane) + 1, "thread_name",
             absl::StrCat("{\"name\":",
                          Quoted(lane == 0 ? track_name : absl::StrCat(track_name, " ", lane + 1)),
                          "}"));
      }
      for (size_t i = 0; i < events.size(); ++i) {
        Put(events[i], process.offset_ns, pid, tid + static_cast<int>(lanes[i]) + 1);
        if (text_.size() >= kPartBytes) MUSTER_RETURN_IF_ERROR(Flush());
      }
      tid += static_cast<int>(count);
    }
    return absl::OkStatus();
  }

  void Put(const Event& event, int64_t offset_ns, int pid, int tid) {
    const auto& [name, category] = trace_.names_[event.name];
    const double start =
        static_cast<double>(event.start_ns + offset_ns - trace_.first_.begin_ns()) / 1e3;
    Next();
    absl::StrAppendFormat(
        &text_,
        "{\"ph\":\"X\",\"name\":%s,\"cat\":%s,\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", name,
        category, pid, tid, start, static_cast<double>(event.duration_ns) / 1e3);
    absl::StrAppend(&text_, ",\"args\":{\"step\":", event.step);
    if (event.bytes > 0) absl::StrAppend(&text_, ",\"bytes\":", event.bytes);
    absl::StrAppend(&text_, "}}");
  }

  void Meta(int pid, int tid, absl::string_view name, absl::string_view args) {
    Next();
    absl::StrAppend(&text_, "{\"ph\":\"M\",\"name\":\"", name, "\",\"pid\":", pid, ",\"tid\":", tid,
                    ",\"args\":", args, "}");
  }

  void Next() {
    if (!first_) absl::StrAppend(&text_, ",\n");
    first_ = false;
  }

  absl::Status Flush() {
    const absl::Status written = write_(text_);
    text_.clear();
    return written;
  }

  const ChromeTrace& trace_;
  const std::function<absl::Status(absl::string_view)>& write_;
  std::string text_;
  bool first_ = true;
};

absl::Status ChromeTrace::Write(const std::function<absl::Status(absl::string_view)>& write) const {
  return Writer(*this, write).Run();
}

}  // namespace muster
