#include "server/coordinator/requests/adjust_requests.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/adjustments.h"
#include "common/job/job_road.h"
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
  const std::optional<v1::Adjustment> next = DecideAdjustment(
      {.record = job.record, .clock = clock, .noise_scale = job.adjusting.noise_scale()});
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
