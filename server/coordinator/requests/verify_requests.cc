#include "server/coordinator/requests/verify_requests.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

// Returns "slot 1 (worker w1), slot 3 (worker w2)".
std::string NamesOf(const v1::JobRecord& record, const std::set<uint32_t>& slots) {
  return absl::StrJoin(slots, ", ", [&](std::string* out, uint32_t slot) {
    absl::StrAppend(out, "slot ", slot, " (worker ",
                    record.slots(static_cast<int>(slot)).worker_id(), ")");
  });
}

// Returns why the bits of the slots cannot be compared; empty: they can.
std::string Incomparable(const Job& job) {
  const std::map<std::string, std::set<uint32_t>> processors = job.verifying.Processors();
  if (processors.size() < 2) return "";
  return absl::StrCat(
      "verify_every compares bits, which depend on processors and threads, and the job's slots "
      "have "
      "different ones: ",
      absl::StrJoin(processors, "; ",
                    [&](std::string* out, const auto& entry) {
                      absl::StrAppend(out, entry.first, ": ", NamesOf(job.record, entry.second));
                    }),
      "; set threads_per_worker, or drain the workers that differ (`muster drain`), or submit the "
      "job without verify_every");
}

}  // namespace

void VerifyRequests::Verify(Job& job, const v1::VerifyStepRequest& request,
                            Call<v1::VerifyStepReply> call) {
  if (request.clock() < job.record.verified_clock()) return call.done(v1::VerifyStepReply());
  if (TrainsInRounds(job.record.spec()) && !RoundLasts(job.record, job.rendezvous)) {
    return call.done(absl::CancelledError(
        absl::StrCat("round ", job.record.round().number(), " of job ", job.id(),
                     " is over: meet the others again, then repeat the step")));
  }
  if (!job.verify_calls.empty() && job.verifying.any() &&
      job.verifying.clock() != request.clock()) {
    return call.done(absl::FailedPreconditionError(
        absl::StrCat("slot ", request.task().slot(), " has a step compared at clock ",
                     request.clock(), " while others have one at clock ", job.verifying.clock())));
  }
  job.ParkVerify(request.task().slot(), std::move(call));
  job.verifying.Add(request);
  if (job.verify_calls.size() < ReportingSlots(job.record)) return;
  const absl::Status decided = Decide(job);
  if (decided.ok()) return;
  for (auto& [slot, parked] : std::exchange(job.verify_calls, {})) parked.done(decided);
}

absl::Status VerifyRequests::Decide(Job& job) {
  if (const std::string why = Incomparable(job); !why.empty()) return lifecycle_.Fail(job, why);
  const std::vector<uint32_t> slots = TrainingSlots(job.record);
  const Mesh mesh = MeshOf(job.record.spec(), static_cast<uint32_t>(slots.size()));
  const StepVerdict verdict = CompareShares(job.verifying.Opinions(mesh, slots));
  if (verdict.right()) return NoteRight(job);
  if (!verdict.wrong.empty()) return LeaveWrong(job, verdict);
  return AskForMore(job, verdict, static_cast<uint32_t>(mesh.size(kDataAxes)));
}

absl::Status VerifyRequests::NoteRight(Job& job) {
  JobChange change{.record = job.record};
  change.record.set_verified_clock(job.verifying.clock() + 1);
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  job.verifying.Clear();
  for (auto& [slot, parked] : std::exchange(job.verify_calls, {})) {
    parked.done(v1::VerifyStepReply());
  }
  return absl::OkStatus();
}

absl::Status VerifyRequests::LeaveWrong(Job& job, const StepVerdict& verdict) {
  std::map<std::string, std::string> reasons;
  for (const auto& [slot, share] : verdict.wrong) {
    const std::string& worker = job.record.slots(static_cast<int>(slot)).worker_id();
    reasons.emplace(worker,
                    absl::StrCat("computed wrong bits: slot ", slot, "'s gradients of step ",
                                 job.verifying.clock() + 1, ", data rank ", share, "'s examples, ",
                                 "differ from what the same examples come to elsewhere or again"));
  }
  return lifecycle_.LeaveWorkers(job, reasons);
}

absl::Status VerifyRequests::AskForMore(Job& job, const StepVerdict& verdict, uint32_t data_ranks) {
  const StepGatherer::Behind behind = job.verifying.FindBehind();
  // Each share twice: a task's own is at distance 0, and each attempt adds one.
  if (behind.attempt + 2 >= 2 * data_ranks) {
    return lifecycle_.Fail(
        job, absl::StrCat("workers computed different gradients of the same examples in step ",
                          job.verifying.clock() + 1,
                          ", again and again, and none contradicts "
                          "itself, so nobody can tell who is wrong: ",
                          NamesOf(job.record, verdict.unsettled),
                          "; test the memory and processors of these machines, and go on from the "
                          "last checkpoint on others (`resume_from`), or with three data ranks or "
                          "more, of which the odd one is known to be wrong"));
  }
  v1::VerifyStepReply reply;
  reply.set_next_distance(behind.attempt + 2);
  for (const uint32_t slot : behind.slots) {
    auto parked = job.verify_calls.extract(slot);
    if (!parked.empty()) parked.mapped().done(reply);
  }
  return absl::OkStatus();
}

}  // namespace muster
