#include "server/coordinator/job/job.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/job/job_state_machine.h"

namespace muster {
namespace {

template <typename Reply>
void AnswerOne(std::map<uint32_t, Call<Reply>>& calls, uint32_t slot, const absl::Status& status) {
  auto node = calls.extract(slot);
  if (!node.empty()) node.mapped().done(status);
}

template <typename Reply>
void DropGone(std::map<uint32_t, Call<Reply>>& calls, std::vector<uint32_t>& gone) {
  for (auto it = calls.begin(); it != calls.end();) {
    if (!it->second.gone()) {
      ++it;
      continue;
    }
    it->second.done(absl::CancelledError("the caller is gone"));
    gone.push_back(it->first);
    it = calls.erase(it);
  }
}

template <typename Reply>
void Park(std::map<uint32_t, Call<Reply>>& parked, uint32_t slot, Call<Reply> call) {
  auto node = parked.extract(slot);
  parked[slot] = std::move(call);
  if (!node.empty()) node.mapped().done(absl::CancelledError("the call was repeated"));
}

}  // namespace

HistoryOptions HistoryOptionsOf(const v1::JobRecord& record) {
  return {.slots = MostWorkers(record.spec()),
          .flops_per_example = record.flops_per_example(),
          .peak_flops = record.spec().compute().peak_flops(),
          .jump = record.spec().divergence().jump()};
}

Job::Job(v1::JobRecord stored, uint64_t max_log_bytes)
    : record(std::move(stored)),
      tasks(slots()),
      progress(slots(),
               // A program's processes may leave it to one of them to report.
               TrainsByAllReduce(record.spec()) || RunsProgram(record.spec()) ||
                       MembersChangeOnServers(record.spec()) ||
                       record.spec().update().backup_workers() > 0
                   ? ProgressTracker::StepIsDone::kTogether
                   : ProgressTracker::StepIsDone::kByEverySlot,
               RunsProgram(record.spec()) ? ProgressTracker::LossWeight::kTold
                                          : ProgressTracker::LossWeight::kExamples,
               record.progress()),
      rendezvous(slots(), SizeAlong(kLayerAxes | kExpertAxes, record.spec())),
      log(max_log_bytes),
      history(IsFinal(record.state())
                  ? nullptr
                  : std::make_unique<StoredHistory>(record.job_id(), HistoryOptionsOf(record))) {}

void Job::AnswerSlot(uint32_t slot, const absl::Status& status) {
  AnswerOne(rendezvous_calls, slot, status);
  AnswerOne(evaluation_calls, slot, status);
  AnswerOne(adjust_calls, slot, status);
  AnswerOne(verify_calls, slot, status);
  AnswerOne(commit_calls, slot, status);
  AnswerOne(part_calls, slot, status);
  std::vector<ShardMapCall> others;
  for (ShardMapCall& parked : std::exchange(shard_map_calls, {})) {
    if (parked.slot == slot) {
      parked.call.done(status);
    } else {
      others.push_back(std::move(parked));
    }
  }
  shard_map_calls = std::move(others);
}

void Job::AnswerAll(const absl::Status& status) {
  for (uint32_t slot = 0; slot < slots(); ++slot) AnswerSlot(slot, status);
}

void Job::DropGoneCalls() {
  std::vector<uint32_t> gone, gone_parts, unused;
  DropGone(rendezvous_calls, gone);
  if (TrainsInRounds(record.spec())) {
    for (uint32_t slot : gone) rendezvous.Forget(slot);
  }
  DropGone(evaluation_calls, unused);
  DropGone(adjust_calls, unused);
  DropGone(verify_calls, unused);
  DropGone(commit_calls, unused);
  DropGone(part_calls, gone_parts);
  for (uint32_t slot : gone_parts) program_parts.Forget(slot);
  std::vector<ShardMapCall> others;
  for (ShardMapCall& parked : std::exchange(shard_map_calls, {})) {
    if (parked.call.gone()) {
      parked.call.done(absl::CancelledError("the caller is gone"));
    } else {
      others.push_back(std::move(parked));
    }
  }
  shard_map_calls = std::move(others);
}

void Job::ParkRendezvous(uint32_t slot, Call<v1::RendezvousReply> call) {
  Park(rendezvous_calls, slot, std::move(call));
}

void Job::ParkEvaluation(uint32_t slot, Call<v1::ReportEvaluationReply> call) {
  Park(evaluation_calls, slot, std::move(call));
}

void Job::ParkAdjust(uint32_t slot, Call<v1::AdjustReply> call) {
  Park(adjust_calls, slot, std::move(call));
}

void Job::ParkVerify(uint32_t slot, Call<v1::VerifyStepReply> call) {
  Park(verify_calls, slot, std::move(call));
}

void Job::ParkCommit(const v1::CommitCheckpointRequest& request,
                     Call<v1::CommitCheckpointReply> call) {
  const uint32_t slot = request.task().slot();
  commit_requests[slot] = request;
  Park(commit_calls, slot, std::move(call));
}

void Job::ParkPart(uint32_t slot, Call<v1::CommitCheckpointReply> call) {
  Park(part_calls, slot, std::move(call));
}

void Job::EndGathering() {
  evaluation.Clear();
  adjusting.Clear();
  verifying.Clear();
  const std::string over =
      record.round().number() > 0
          ? absl::StrCat("round ", record.round().number(), " of job ", id(),
                         " is over: meet the others again, then repeat the ")
          : absl::StrCat("generation ", record.generation(), " of job ", id(),
                         " is over, other slots train from here on: end; theirs repeat the ");
  for (auto& [slot, parked] : std::exchange(evaluation_calls, {})) {
    parked.done(absl::CancelledError(absl::StrCat(over, "evaluation")));
  }
  for (auto& [slot, parked] : std::exchange(adjust_calls, {})) {
    parked.done(absl::CancelledError(absl::StrCat(over, "call")));
  }
  for (auto& [slot, parked] : std::exchange(verify_calls, {})) {
    parked.done(absl::CancelledError(absl::StrCat(over, "step")));
  }
}

void Job::ForgetGeneration() {
  checkpoint_waits_for.clear();
  round_failures.clear();
  missing_servers.clear();
  rendezvous.Clear();
  open_round.reset();
  evaluation.Clear();
  adjusting.Clear();
  verifying.Clear();
  kept_evaluation.reset();
  program_parts.Clear();
  member_change.reset();
  AnswerAll(absl::AbortedError(absl::StrCat("job ", id(), " went on to generation ",
                                            record.generation(), "; this task is fenced")));
}

}  // namespace muster
