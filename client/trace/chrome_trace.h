#ifndef MUSTER_CLIENT_TRACE_CHROME_TRACE_H_
#define MUSTER_CLIENT_TRACE_CHROME_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/trace.pb.h"

namespace muster {

// Assembles the messages of a trace (v1::TraceChunk) into one file in Chrome's trace event format,
// which Perfetto and chrome://tracing show. A process of the file is a slot's task or a server; a
// thread of it is a track. Events that overlap are divided among as few threads as it takes, so
// that within a thread events lie one after another or in one another. All are complete events
// ("ph": "X"), in microseconds of the coordinator's clock since the trace was asked for.
class ChromeTrace {
 public:
  // Takes the next message. DataLoss: an event has no name or no track.
  absl::Status Add(const v1::TraceChunk& chunk);

  // Writes the file, part by part, and returns the first error of `write`.
  absl::Status Write(const std::function<absl::Status(absl::string_view)>& write) const;

  // The first message, and the last; empty before these came.
  const v1::TraceChunk& first() const { return first_; }
  const v1::TraceChunk& last() const { return last_; }
  size_t events() const { return events_; }
  // Returns the number of events that processes left out.
  uint64_t dropped() const;
  // Returns the largest error of the processes' clocks; 0: no process has sent any event.
  uint64_t clock_error_ns() const;
  // Returns the processes that have sent events whose clocks were not compared.
  std::vector<std::string> uncompared() const;

 private:
  // A server by its id, or a slot and the incarnation of its task.
  using ProcessKey = std::pair<std::string, std::pair<uint32_t, uint64_t>>;
  struct Event {
    int64_t start_ns = 0;
    uint64_t duration_ns = 0;
    uint64_t step = 0;
    uint64_t bytes = 0;
    // Index into names_.
    uint32_t name = 0;
  };
  struct Track {
    bool overlapping = false;
    std::vector<Event> events;
  };
  struct Process {
    v1::TraceProcess process;
    std::map<std::string, Track> tracks;
    // These come from the process's last piece.
    int64_t offset_ns = 0;
    uint64_t error_ns = 0;
    uint64_t dropped = 0;
  };
  class Writer;

  v1::TraceChunk first_;
  v1::TraceChunk last_;
  std::map<ProcessKey, Process> processes_;
  // Names with their categories, as JSON.
  std::vector<std::pair<std::string, std::string>> names_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint32_t> named_;
  size_t events_ = 0;
};

// Returns a process's name for people, such as `slot 3 (worker-1)` or `server server-0`.
std::string NameOf(const v1::TraceProcess& process);

// Divides intervals that may overlap among lanes, the first of which is as full as it can be.
// Returns each interval's lane. REQUIRES: sorted by begin.
std::vector<size_t> DivideIntoLanes(const std::vector<std::pair<int64_t, int64_t>>& intervals);

}  // namespace muster

#endif  // MUSTER_CLIENT_TRACE_CHROME_TRACE_H_
