#include "server/coordinator/requests/adjust_requests.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/adjustments.h"
#include "common/job/job_road.h"
#include "common/mesh/mesh.h"
#include "server/coordinator/adjust/decide.h"
#include "server/coordinator/adjust/describe.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

v1::AdjustReply DecidedFor(const v1::JobRecord& record) {
  v1::AdjustReply reply;
  *reply.mutable_adjustments() = record.adjustments();
  return reply;
}

std::vector<DataRankSpeed> SpeedsOf(const Job& job) {
  const std::vector<uint32_t> slots = TrainingSlots(job.record);
  const absl::StatusOr<Mesh> mesh =
      Mesh::FromSpec(job.record.spec().parallelism(), static_cast<int>(slots.size()));
  if (!mesh.ok()) return {};
  std::vector<DataRankSpeed> speeds(mesh->size(kDataAxes));
  for (size_t rank = 0; rank < slots.size(); ++rank) {
    const auto request = job.adjusting.requests().find(slots[rank]);
    if (request == job.adjusting.requests().end()) continue;
    const double seconds = request->second.compute_seconds();
    if (request->second.examples() == 0 || !(seconds > 0)) continue;
    DataRankSpeed& speed = speeds[mesh->Position(static_cast<int>(rank), kDataAxes)];
    const double own = static_cast<double>(request->second.examples()) / seconds;
    if (speed.examples_per_second > 0 && speed.examples_per_second <= own) continue;
    speed = {.examples_per_second = own, .slot = slots[rank]};
  }
  return speeds;
}

}  // namespace

void AdjustRequests::Adjust(Job& job, const v1::AdjustRequest& request,
                            Call<v1::AdjustReply> call) {
  if (request.clock() <= job.record.decided_clock()) return call.done(DecidedFor(job.record));
  if (TrainsInRounds(job.record.spec()) && !RoundLasts(job.record, job.rendezvous)) {
    return call.done(absl::CancelledError(
        absl::StrCat("round ", job.record.round().number(), " of job ", job.id(),
                     " is over: meet the others again, then ask what was decided")));
  }
  if (!job.adjust_calls.empty() && job.adjusting.any() &&
      job.adjusting.clock() != request.clock()) {
    return call.done(absl::FailedPreconditionError(
        absl::StrCat("slot ", request.task().slot(), " asks what is decided at clock ",
                     request.clock(), " while others do at clock ", job.adjusting.clock())));
  }
  job.ParkAdjust(request.task().slot(), std::move(call));
  job.adjusting.Add(request);
  if (!job.adjusting.complete(ReportingSlots(job.record))) return;
  const absl::Status decided = Decide(job);
  for (auto& [slot, parked] : std::exchange(job.adjust_calls, {})) {
    if (decided.ok()) {
      parked.done(DecidedFor(job.record));
    } else {
      parked.done(decided);
    }
  }
}

absl::Status AdjustRequests::Decide(Job& job) {
  const uint64_t clock = job.adjusting.clock();
  const std::optional<v1::Adjustment> next =
      DecideAdjustment({.record = job.record,
                        .clock = clock,
                        .noise_scale = job.adjusting.noise_scale(),
                        .speeds = SpeedsOf(job)});
  JobChange change{.record = job.record};
  change.record.set_decided_clock(clock);
  if (next.has_value()) {
    change.events.emplace_back(
        DescribeAdjustment(Adjustments(job.record.adjustments()).At(clock), *next),
        v1::JobEvent::ADJUSTMENT);
    *change.record.add_adjustments() = *next;
  }
  const absl::Status stored = jobs_.Commit(job, std::move(change));
  if (stored.ok()) job.adjusting.Clear();
  return stored;
}

}  // namespace muster
