#include "server/coordinator/job_lifecycle.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "server/coordinator/job_state_machine.h"
#include "server/coordinator/job_validator.h"
#include "server/coordinator/shard_map.h"

namespace muster {
namespace {

std::string CodeName(int code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

}  // namespace

JobLifecycle::JobLifecycle(JobTable& jobs, const Membership& members, const Clock& clock,
                           CoordinatorMetrics& metrics)
    : jobs_(jobs), members_(members), clock_(clock), metrics_(metrics) {}

absl::Status JobLifecycle::Reconcile(Job& job) {
  if (!IsActive(job.record.state())) return absl::OkStatus();
  // The last slot's end and the job's are stored one after the other; the second may be missing.
  const auto& slots = job.record.slots();
  if (!slots.empty() && std::all_of(slots.begin(), slots.end(),
                                    [](const v1::SlotRecord& slot) { return slot.done(); })) {
    return MaybeSucceed(job);
  }
  const Losses losses = FindLosses(job.record, members_);
  if (losses.slots.empty() && !losses.any_server()) {
    job.missing_servers.clear();
    return absl::OkStatus();
  }
  if (IsComplete(job.record)) {
    return Finish(job, v1::SUCCEEDED, "",
                  "succeeded: all was done when a daemon of the job was lost");
  }
  if (losses.any_server() && !ContinuesInPlace(job.record)) {
    std::vector<std::string> servers = losses.missing;
    for (const Losses::Returned& returned : losses.returned) servers.push_back(returned.server_id);
    return GoBack(job, absl::StrCat("lost server ", absl::StrJoin(servers, ", ")));
  }
  JobChange change{.record = job.record};
  for (uint32_t slot : losses.slots) {
    change.events.push_back(absl::StrCat("slot ", slot, " lost its worker ",
                                         job.record.slots(slot).worker_id(),
                                         "; another task takes its place"));
    LoseSlot(slot, change.record);
  }
  MUSTER_RETURN_IF_ERROR(RecoverServers(job, losses, change));
  if (change.events.empty()) return absl::OkStatus();
  change.record.set_state(v1::RECOVERING);
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));

  job.missing_servers = {losses.missing.begin(), losses.missing.end()};
  metrics_.respawned_slots.Add(losses.slots.size());
  for (uint32_t slot : losses.slots) {
    ForgetTask(job, slot,
               absl::AbortedError(absl::StrCat("slot ", slot,
                                               " lost its worker's lease; "
                                               "another task takes its place")));
  }
  if (losses.any_server()) {
    // They go on once they have found the server again.
    for (TaskView& task : job.tasks) task.heard = false;
  }
  return absl::OkStatus();
}

absl::Status JobLifecycle::RecoverServers(Job& job, const Losses& losses, JobChange& change) {
  for (const std::string& server : losses.missing) {
    if (job.missing_servers.contains(server)) continue;
    change.events.push_back(absl::StrCat("lost server ", server, " with partitions ",
                                         PartitionsOf(server, job.record),
                                         "; continues in place once it is back"));
  }
  for (const Losses::Returned& returned : losses.returned) {
    MoveShards(returned.server_id, returned.incarnation, returned.address, change.record);
    change.events.push_back(absl::StrCat("server ", returned.server_id, " is back at ",
                                         returned.address, "; shard map version ",
                                         change.record.shard_map_version()));
  }
  return absl::OkStatus();
}

absl::Status JobLifecycle::GoBack(Job& job, const std::string& why) {
  JobChange change{.record = job.record};
  RollBack(change.record);
  change.record.set_state(v1::RECOVERING);
  change.events.push_back(absl::StrCat(why, "; generation ", change.record.generation(),
                                       " starts again from clock ", change.record.start_clock()));
  const uint64_t clock = change.record.start_clock();
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  metrics_.rollbacks.Add();
  job.missing_servers.clear();
  job.progress.RollBack(clock);
  job.progress_unsaved = true;
  job.rendezvous.Clear();
  job.evaluation.Clear();
  job.AnswerAll(absl::AbortedError(absl::StrCat("job ", job.id(), " went on to generation ",
                                                job.record.generation(), "; this task is fenced")));
  for (TaskView& task : job.tasks) task = TaskView{};
  return absl::OkStatus();
}

absl::Status JobLifecycle::Met(Job& job, const v1::RendezvousRecord& met) {
  JobChange change{.record = job.record};
  *change.record.mutable_met() = met;
  change.record.set_state(v1::RUNNING);
  if (change.record.started_unix_ms() == 0) {
    change.record.set_started_unix_ms(jobs_.NowUnixMs());
  }
  change.events.push_back(absl::StrCat(
      "all ", job.slots(), " slots met in generation ", job.record.generation(), ": ",
      met.training_examples(), " training and ", met.held_out_examples(), " held-out examples, ",
      met.total_steps(), " steps, ", PolicyName(job.record.spec())));
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  for (TaskView& task : job.tasks) task.heard = true;
  return absl::OkStatus();
}

absl::Status JobLifecycle::Heard(Job& job, uint32_t slot, uint64_t clock) {
  job.tasks[slot].heard = true;
  JobChange change{.record = job.record};
  if (job.record.has_met() && !job.record.has_run() && clock > job.record.start_clock()) {
    change.record.set_has_run(true);
  }
  const bool whole = job.record.state() == v1::RECOVERING && IsWhole(job);
  if (whole) {
    change.record.set_state(v1::RUNNING);
    change.events.push_back("recovered");
  }
  if (!whole && change.record.has_run() == job.record.has_run()) return absl::OkStatus();
  return jobs_.Commit(job, std::move(change));
}

bool JobLifecycle::IsWhole(const Job& job) const {
  if (!job.record.has_met() || FindLosses(job.record, members_).any_server()) return false;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    const v1::SlotRecord& holder = job.record.slots(slot);
    if (holder.done()) continue;
    if (holder.worker_id().empty() || !job.tasks[slot].heard) return false;
  }
  return true;
}

absl::Status JobLifecycle::TaskEnded(Job& job, uint32_t slot, int code, absl::string_view message) {
  if (code == 0) {
    if (job.record.slots(slot).done()) return MaybeSucceed(job);
    JobChange change{.record = job.record};
    change.record.mutable_slots(slot)->set_done(true);
    change.events.push_back(absl::StrCat("slot ", slot, " is done"));
    MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
    return MaybeSucceed(job);
  }
  const std::string what =
      absl::StrCat("slot ", slot, " on worker ", job.record.slots(slot).worker_id(), " ended with ",
                   CodeName(code), ": ", message);
  if (!MayRespawn(code)) return Fail(job, what);
  // A task that gave up often met a server that has just been restarted, or is about to be given
  // up. The server's registration must come first: the next task would take a server that forgot
  // all for a new one.
  return Respawn(job, slot, what, 1);
}

absl::Status JobLifecycle::TaskDied(Job& job, uint32_t slot, absl::string_view message) {
  return Respawn(job, slot,
                 absl::StrCat("slot ", slot, " on worker ", job.record.slots(slot).worker_id(),
                              " died: ", message),
                 0);
}

absl::Status JobLifecycle::Respawn(Job& job, uint32_t slot, absl::string_view why,
                                   uint32_t patience) {
  if (IsComplete(job.record)) {
    return Finish(job, v1::SUCCEEDED, "", absl::StrCat("succeeded, though ", why));
  }
  JobChange change{.record = job.record};
  const uint32_t failures = CountFailure(slot, job.progress.clock(slot), change.record);
  if (failures > kMaxSlotFailures) {
    return Fail(
        job, absl::StrCat(why, "; that was failure ", failures, " of this slot without progress"));
  }
  LoseSlot(slot, change.record);
  change.record.set_state(v1::RECOVERING);
  change.events.push_back(absl::StrCat(why, "; another task takes its place"));
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  metrics_.respawned_slots.Add();
  ForgetTask(job, slot, absl::AbortedError(absl::StrCat("slot ", slot, " has a later task")));
  job.tasks[slot].not_before =
      clock_.Monotonic() + RespawnDelay(failures + patience, members_.lease());
  return absl::OkStatus();
}

void JobLifecycle::ForgetTask(Job& job, uint32_t slot, const absl::Status& status) {
  job.tasks[slot] = TaskView{};
  job.rendezvous.Forget(slot);
  job.evaluation.Forget(slot);
  job.AnswerSlot(slot, status);
}

absl::Status JobLifecycle::MaybeSucceed(Job& job) {
  for (const v1::SlotRecord& slot : job.record.slots()) {
    if (!slot.done()) return absl::OkStatus();
  }
  const v1::JobRecord& record = job.record;
  const bool trains = !OnlyEvaluates(record.spec());
  const uint64_t kept = record.checkpoints().empty() ? 0 : record.checkpoints().rbegin()->clock();
  if (!record.has_met()) return Fail(job, "its tasks ended before they met");
  if (trains && (record.checkpoints().empty() || kept < FinalClock(record))) {
    return Fail(job, absl::StrCat("its tasks ended without a checkpoint at clock ",
                                  FinalClock(record), "; the last one is at clock ", kept));
  }
  return Finish(job, v1::SUCCEEDED, "", "succeeded");
}

absl::Status JobLifecycle::Fail(Job& job, const std::string& message) {
  if (IsFinal(job.record.state())) return absl::OkStatus();
  return Finish(job, v1::FAILED, message, absl::StrCat("failed: ", message));
}

absl::Status JobLifecycle::Cancel(Job& job, const std::string& reason) {
  if (IsFinal(job.record.state())) return absl::OkStatus();
  const std::string kept =
      job.record.checkpoints().empty()
          ? "no checkpoint yet"
          : absl::StrCat("its last checkpoint, at clock ",
                         job.record.checkpoints().rbegin()->clock(), ", is kept");
  const std::string message =
      absl::StrCat("cancelled: ", reason.empty() ? "no reason given" : reason,
                   "; its tasks stop within ", absl::FormatDuration(members_.lease()), "; ", kept);
  return Finish(job, v1::CANCELLED, message, message);
}

absl::Status JobLifecycle::Finish(Job& job, v1::JobState state, const std::string& message,
                                  const std::string& event) {
  JobChange change{.record = job.record};
  change.record.set_state(state);
  change.record.set_message(message);
  change.record.set_finished_unix_ms(jobs_.NowUnixMs());
  change.events.push_back(event);
  std::set<std::string> holders(job.record.former_servers().begin(),
                                job.record.former_servers().end());
  for (const v1::ServerRecord& server : job.record.servers()) holders.insert(server.server_id());
  change.drops = {holders.begin(), holders.end()};
  change.record.clear_former_servers();
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  job.waiting_for.clear();
  job.missing_servers.clear();
  // Scores that were gathered when the job ended can take much memory.
  job.evaluation.Clear();
  job.rendezvous.Clear();
  job.AnswerAll(
      absl::NotFoundError(absl::StrCat("job ", job.id(), " has ended as ", v1::JobState_Name(state),
                                       message.empty() ? "" : ": ", message)));
  return absl::OkStatus();
}

}  // namespace muster
