#include "worker/runtime/coordinator_client/collective_records.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/tensor/dtype.h"
#include "common/text/utf8.h"
#include "proto/task_service.pb.h"
#include "worker/collectives/collective_call.h"

namespace muster {
namespace {

// The most calls that a report may have (ReportCollectivesRequest).
constexpr size_t kMostCalls = 1000;

void ToProto(absl::string_view group, const RecordedCall& call, v1::CollectiveRecord& record) {
  record.set_sequence(call.sequence);
  record.set_group(std::string(group));
  record.set_operation(Name(call.kind));
  record.set_dtype(Name(call.dtype));
  record.set_reduction(Name(call.reduction));
  record.set_count(call.count);
  record.set_label(call.label);
  record.set_started_unix_us(absl::ToUnixMicros(call.started));
  record.set_duration_us(
      call.duration == absl::InfiniteDuration() ? -1 : absl::ToInt64Microseconds(call.duration));
  if (!call.status.ok()) record.set_error(ToUtf8(call.status.ToString()));
}

}  // namespace

void AddCollectiveRecords(absl::Span<const FlightRecorder* const> recorders,
                          v1::ReportCollectivesRequest& request) {
  struct Call {
    const std::string* group;
    RecordedCall call;
  };
  std::vector<Call> calls;
  for (const FlightRecorder* recorder : recorders) {
    for (RecordedCall& call : recorder->Calls()) {
      calls.push_back({&recorder->group(), std::move(call)});
    }
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const Call& a, const Call& b) { return a.call.started < b.call.started; });
  const size_t first = calls.size() - std::min(calls.size(), kMostCalls);
  for (const auto& [group, call] : absl::MakeConstSpan(calls).subspan(first)) {
    ToProto(*group, call, *request.add_calls());
  }
}

void AddCollectiveTimes(absl::Span<const FlightRecorder* const> recorders,
                        v1::ReportProgressRequest& request) {
  std::map<Collective, CallTimes> all;
  for (const FlightRecorder* recorder : recorders) {
    for (const auto& [kind, times] : recorder->Times()) {
      CallTimes& sum = all[kind];
      for (size_t bucket = 0; bucket < kTimeBuckets; ++bucket) {
        sum.counts[bucket] += times.counts[bucket];
      }
      sum.seconds += times.seconds;
    }
  }
  for (const auto& [kind, times] : all) {
    v1::CollectiveTimes& added = *request.add_collective_times();
    added.set_operation(Name(kind));
    added.mutable_counts()->Add(times.counts.begin(), times.counts.end());
    added.set_seconds(times.seconds);
  }
}

void AddCallUnderWay(absl::Span<const FlightRecorder* const> recorders, absl::Time since,
                     v1::ReportProgressRequest& request) {
  const FlightRecorder* group = nullptr;
  absl::optional<RecordedCall> oldest;
  for (const FlightRecorder* recorder : recorders) {
    absl::optional<RecordedCall> call = recorder->UnderWay();
    if (!call.has_value() || call->started > since) continue;
    if (oldest.has_value() && oldest->started <= call->started) continue;
    group = recorder;
    oldest = std::move(call);
  }
  if (oldest.has_value()) ToProto(group->group(), *oldest, *request.mutable_call_under_way());
}

}  // namespace muster
