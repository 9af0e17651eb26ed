#include "worker/collectives/flight_recorder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "common/text/utf8.h"
#include "common/trace/trace_scope.h"
#include "common/transport/shared_memory/group_memory.h"

namespace muster {
FlightRecorder::FlightRecorder(std::string group)
    : group_(std::move(group)), trace_(trace_bound.recorder), entries_(kCalls) {
  // Jobs are planned with so much.
  static_assert(kCalls * sizeof(Entry) <= kGroupBytes);
}

void FlightRecorder::Begin(uint64_t sequence, const CollectiveCall& call) {
  const int64_t now = absl::GetCurrentTimeNanos();
  const absl::string_view label = CutUtf8(call.label, kLabelBytes - 1);
  absl::MutexLock lock(&mutex_);
  last_ = sequence;
  Entry& entry = entries_[sequence % kCalls];
  entry.sequence = sequence;
  entry.kind = call.kind;
  entry.dtype = call.dtype;
  entry.reduction = call.reduction;
  entry.count = call.count;
  // Not memcpy: an empty label may have no address.
  label.copy(entry.label, label.size());
  entry.label[label.size()] = '\0';
  entry.started_ns = now;
  entry.duration_ns = -1;
  entry.status = absl::OkStatus();
}

void FlightRecorder::End(uint64_t sequence, const absl::Status& status) {
  const int64_t now = absl::GetCurrentTimeNanos();
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[sequence % kCalls];
  if (entry.sequence != sequence) return;
  // The wall clock may have been set back meanwhile.
  entry.duration_ns = std::max<int64_t>(0, now - entry.started_ns);
  entry.status = status;
  if (trace_ != nullptr && trace_->on()) {
    TraceCall(*trace_, entry.label[0] == '\0' ? Name(entry.kind) : entry.label, entry.duration_ns,
              entry.count * SizeOf(entry.dtype));
  }
  if (!status.ok()) return;
  const double seconds = static_cast<double>(entry.duration_ns) / 1e9;
  CallTimes& times = times_[entry.kind];
  ++times.counts[TimeBucket(seconds)];
  times.seconds += seconds;
}

std::map<Collective, CallTimes> FlightRecorder::Times() const {
  absl::MutexLock lock(&mutex_);
  return times_;
}

RecordedCall FlightRecorder::ToCall(const Entry& entry) {
  return {.sequence = entry.sequence,
          .kind = entry.kind,
          .dtype = entry.dtype,
          .reduction = entry.reduction,
          .count = entry.count,
          .label = entry.label,
          .started = absl::FromUnixNanos(entry.started_ns),
          .duration = entry.duration_ns < 0 ? absl::InfiniteDuration()
                                            : absl::Nanoseconds(entry.duration_ns),
          .status = entry.status};
}

absl::optional<RecordedCall> FlightRecorder::UnderWay() const {
  absl::MutexLock lock(&mutex_);
  const Entry& entry = entries_[last_ % kCalls];
  if (last_ == 0 || entry.duration_ns >= 0) return absl::nullopt;
  return ToCall(entry);
}

std::vector<RecordedCall> FlightRecorder::Calls() const {
  std::vector<Entry> entries;
  {
    absl::MutexLock lock(&mutex_);
    entries = entries_;
  }
  entries.erase(std::remove_if(entries.begin(), entries.end(),
                               [](const Entry& entry) { return entry.sequence == 0; }),
                entries.end());
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.sequence < b.sequence; });
  std::vector<RecordedCall> calls;
  calls.reserve(entries.size());
  for (const Entry& entry : entries) calls.push_back(ToCall(entry));
  return calls;
}

}  // namespace muster
