#include "server/coordinator/lifecycle/job_lifecycle.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/job/adjustments.h"
#include "common/job/job_road.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/text/utf8.h"
#include "server/coordinator/adjust/describe.h"
#include "server/coordinator/cluster/shard_map.h"
#include "server/coordinator/job/find_checkpoint.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/divergence.h"
#include "server/coordinator/lifecycle/left_workers.h"
#include "server/coordinator/lifecycle/lifecycle_texts.h"
#include "server/coordinator/lifecycle/round_failures.h"
#include "server/coordinator/lifecycle/round_record.h"
#include "server/coordinator/lifecycle/scale_batch.h"

namespace muster {
namespace {

// Time after a job's end in which its daemons tell the last text of its tasks, beside the grace
// that these have.
constexpr absl::Duration kToTellLastText = absl::Seconds(30);

// Most rounds of all-reduce in a row without a step.
constexpr uint32_t kMaxMeetings = 20;

// Returns how many roll-backs in a row, or failures of one slot, the job survives.
uint32_t MostRollBacks(const v1::JobSpec& spec) {
  return RunsProgram(spec) ? spec.model().program().max_restarts() : kMaxRollBacks;
}

uint32_t MostFailures(const v1::JobSpec& spec) {
  return RunsProgram(spec) ? spec.model().program().max_restarts() : kMaxSlotFailures;
}

// Returns how a program's process ended, without what it printed, if no process of the job has made
// a step or a checkpoint yet: the next process would probably end in the same way. Otherwise empty.
std::string EndBeforeAnyStep(const Job& job, int code, absl::string_view message) {
  const bool ended_itself = static_cast<absl::StatusCode>(code) == absl::StatusCode::kAborted;
  if (!RunsProgram(job.record.spec()) || !ended_itself || job.progress.record().steps() > 0 ||
      !job.record.checkpoints().empty()) {
    return "";
  }
  return std::string(message.substr(0, message.find('\n')));
}

// Returns whether the submitter said how often a program is started again.
bool ToldRestarts(const v1::JobRecord& record) {
  return std::count(record.given().begin(), record.given().end(), "model.program.max_restarts") > 0;
}

void SetMet(const v1::RendezvousRecord& met, int64_t now_unix_ms, v1::JobRecord& record) {
  *record.mutable_met() = met;
  record.set_state(v1::RUNNING);
  if (record.started_unix_ms() == 0) record.set_started_unix_ms(now_unix_ms);
}

// Returns whether losing the tasks of these slots interrupts the job. An all-reduce job does not
// miss slots outside its present round.
bool Hurts(const v1::JobRecord& record, const std::vector<uint32_t>& lost) {
  if (lost.empty()) return false;
  if (record.round().number() == 0) {
    return std::any_of(lost.begin(), lost.end(),
                       [&](uint32_t slot) { return Trains(record, slot); });
  }
  return std::any_of(lost.begin(), lost.end(),
                     [&](uint32_t slot) { return IsMember(record, slot); });
}

// Clears the failures of slots that were not in the last round, whose failures then did no harm.
void ForgiveNewcomers(const Rendezvous::Round& next, v1::JobRecord& record) {
  if (record.round().members().empty()) return;
  for (const v1::CollectivePeer& peer : next.peers) {
    if (!WasMember(record, peer.slot())) record.mutable_slots(peer.slot())->clear_failures();
  }
}

}  // namespace

JobLifecycle::JobLifecycle(JobTable& jobs, const Membership& members, const Clock& clock,
                           CoordinatorMetrics& metrics)
    : jobs_(jobs), members_(members), clock_(clock), metrics_(metrics) {}

absl::Status JobLifecycle::Reconcile(Job& job) {
  if (!IsActive(job.record.state())) return absl::OkStatus();
  // The last slot's end is stored before the job's, which may be missing.
  if (AllDone(job.record)) return MaybeSucceed(job);
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
    for (const ServerIdentity& returned : losses.returned) servers.push_back(returned.server_id);
    return GoBack(job, absl::StrCat("lost server ", absl::StrJoin(servers, ", ")));
  }
  if (EndsGeneration(job.record, losses.slots)) {
    const uint32_t slot = losses.slots.front();
    return GoBack(
        job, absl::StrCat("slot ", slot, " lost its worker ", job.record.slots(slot).worker_id()));
  }
  JobChange change{.record = job.record};
  const bool hurts = Hurts(job.record, losses.slots) || losses.any_server();
  for (uint32_t slot : losses.slots) {
    change.events.emplace_back(
        absl::StrCat("slot ", slot, " lost its worker ", job.record.slots(slot).worker_id(),
                     "; another task takes its place"),
        v1::JobEvent::LOSS);
    LoseSlot(slot, change.record);
  }
  MUSTER_RETURN_IF_ERROR(RecoverServers(job, losses, change));
  if (change.events.empty()) return absl::OkStatus();
  if (hurts) change.record.set_state(v1::RECOVERING);
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));

  job.missing_servers = {losses.missing.begin(), losses.missing.end()};
  metrics_.respawned_slots.Increment(losses.slots.size());
  ForgetTasks(job, losses.slots,
              absl::AbortedError("the worker's lease is over; another task takes the slot"));
  if (losses.any_server()) {
    // Tasks count again once they have found the server.
    for (TaskState& task : job.tasks) task.heard = false;
  }
  return absl::OkStatus();
}

absl::Status JobLifecycle::RecoverServers(Job& job, const Losses& losses, JobChange& change) {
  for (const std::string& server : losses.missing) {
    if (job.missing_servers.contains(server)) continue;
    change.events.emplace_back(
        absl::StrCat("lost server ", server, " with partitions ", PartitionsOf(server, job.record),
                     "; continues in place once it is back"),
        v1::JobEvent::LOSS);
  }
  for (const ServerIdentity& returned : losses.returned) {
    MoveShards(returned, change.record);
    change.events.push_back(absl::StrCat("server ", returned.server_id, " is back at ",
                                         returned.address, "; shard map version ",
                                         change.record.shard_map_version()));
  }
  return absl::OkStatus();
}

absl::Status JobLifecycle::GoBack(Job& job, const std::string& why) {
  JobChange change{.record = job.record};
  const uint32_t rollbacks = CountRollBack(job.progress.step(), change.record);
  if (const uint32_t most = MostRollBacks(job.record.spec()); rollbacks > most) {
    if (most == 0) return Fail(job, absl::StrCat("model.program.max_restarts is 0: ", why));
    return Fail(
        job,
        absl::StrCat(
            "the job went back ", most, " times in a row without getting past clock ",
            change.record.rollback_clock(),
            RunsProgram(job.record.spec()) ? " (model.program.max_restarts)" : "",
            "; look into the logs of the job and of what was lost, then submit it again: ", why));
  }
  return GoBackWith(job, why, rollbacks, std::move(change));
}

absl::Status JobLifecycle::GoBackWith(Job& job, const std::string& why, uint32_t rollbacks,
                                      JobChange change) {
  RollBack(change.record);
  return BeginAnew(job, why, rollbacks, std::move(change));
}

absl::Status JobLifecycle::Diverged(Job& job, uint64_t step, const std::string& why) {
  if (!job.record.spec().has_divergence()) return Fail(job, why);
  if (!MayReturn(job.record)) return Fail(job, FailureAfterReturns(job.record, why));
  const uint64_t reached = std::max(step, job.progress.furthest());
  JobChange change{.record = job.record};
  change.record.set_divergences(change.record.divergences() + 1);
  NoteRisenLoss(step, change.record);
  RollBack(change.record);
  const v1::Adjustment next = AdjustmentOfReturn(job.record, change.record, reached, why);
  change.events.emplace_back(
      DescribeAdjustment(Adjustments(change.record.adjustments()).At(next.clock()), next),
      v1::JobEvent::ADJUSTMENT);
  *change.record.add_adjustments() = next;
  // This is not counted as a roll-back: it is bounded by itself.
  return BeginAnew(job, why, /*rollbacks=*/1, std::move(change));
}

absl::Status JobLifecycle::BeginAnew(Job& job, const std::string& why, uint32_t rollbacks,
                                     JobChange change) {
  change.record.set_state(v1::RECOVERING);
  // A fault that lasts some seconds must not use up all chances.
  const absl::Duration delay = RespawnDelay(rollbacks, members_.lease());
  change.record.set_last_rollback(
      ToUtf8(absl::StrCat(why, "; ", StartOf(change.record), TellDelay(delay))));
  change.events.emplace_back(change.record.last_rollback(), v1::JobEvent::ROLLBACK);
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  metrics_.rollbacks.Increment();
  job.ForgetGeneration();
  job.joining.clear();
  const absl::Duration not_before = clock_.Monotonic() + delay;
  for (TaskState& task : job.tasks) task = TaskState{.not_before = not_before};
  return absl::OkStatus();
}

absl::Status JobLifecycle::CheckpointDamaged(Job& job, const std::string& why,
                                             absl::string_view damage) {
  JobChange change{.record = job.record};
  if (!NoteDamage(std::string(damage), change.record)) {
    return Fail(job,
                absl::StrCat(why, "; the job starts from the checkpoint ", job.record.restore_uri(),
                             ", and there is none of its own yet: start it from another one"));
  }
  change.events.push_back(
      absl::StrCat("the checkpoint at clock ", job.record.start_clock(), " is damaged: ", damage));
  if (LastSound(change.record) == nullptr) {
    MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
    std::string all;
    for (const v1::CheckpointRecord& checkpoint : job.record.checkpoints()) {
      absl::StrAppend(
          &all, "; at clock ", checkpoint.clock(), ": ",
          checkpoint.damage().empty() ? "goes on from a damaged one" : checkpoint.damage());
    }
    return Fail(job, absl::StrCat("every checkpoint of the job is damaged", all,
                                  "; bring the files back from a backup and go on from there "
                                  "(`muster checkpoint restore`), or submit the job again"));
  }
  // This is not counted as a roll-back: each time there is one checkpoint less to try.
  return GoBackWith(job, why, /*rollbacks=*/1, std::move(change));
}

absl::Status JobLifecycle::Met(Job& job, const v1::RendezvousRecord& met) {
  const std::vector<uint32_t> slots = TrainingSlots(job.record);
  JobChange change{.record = job.record};
  std::string where;
  if (TakesOver(job.record)) {
    change.record.set_start_clock(*job.rendezvous.taken_over_clock());
    const std::string step = absl::StrCat(" at step ", change.record.start_clock());
    for (const uint32_t slot : job.joining) {
      change.events.push_back(absl::StrCat("slot ", slot, " joins", step));
    }
    where = absl::StrCat(", to go on", step);
  }
  SetMet(met, jobs_.NowUnixMs(), change.record);
  change.events.push_back(absl::StrCat("all ", slots.size(), " slots met in generation ",
                                       job.record.generation(), where, ": ",
                                       DescribeMeeting(met, job.record.spec())));
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  job.joining.clear();
  for (const uint32_t slot : slots) job.tasks[slot].heard = true;
  return absl::OkStatus();
}

absl::Status JobLifecycle::OpenRound(Job& job, const v1::RendezvousRecord& met,
                                     const Rendezvous::Round& round, absl::string_view secret) {
  JobChange change{.record = job.record};
  v1::RoundRecord& record = *change.record.mutable_round();
  const uint64_t clock = BeginningOf(round, job.record);
  const std::string ended =
      job.round_failures.empty() ? "" : absl::StrCat("; the last one ended: ", job.round_failures);
  record.set_meetings(CountMeetings(round, job.record));
  if (record.meetings() > kMaxMeetings) {
    return Fail(job, absl::StrCat("the workers met ", kMaxMeetings,
                                  " times without making the step after clock ", clock, ended,
                                  "; see what their collective calls ended with: muster status ",
                                  job.id(), " --collectives"));
  }
  ForgiveNewcomers(round, change.record);
  record.set_clock(clock);
  // On servers a data rank may repeat a clock alone, and compare with nobody.
  const uint64_t verified = TrainsByAllReduce(job.record.spec()) ? clock : UINT64_MAX;
  change.record.set_verified_clock(std::min(change.record.verified_clock(), verified));
  record.set_number(record.number() + 1);
  record.clear_members();
  const bool runs_program = RunsProgram(job.record.spec());
  if (runs_program) record.set_secret(std::string(secret));
  for (const v1::CollectivePeer& peer : round.peers) {
    v1::RoundMember& member = *record.add_members();
    member.set_slot(peer.slot());
    member.set_incarnation(job.record.slots(peer.slot()).incarnation());
    if (runs_program) member.set_endpoint(peer.endpoint());
  }
  const std::string who = WhoMet(round, job.record);
  const std::string from = round.source.has_value() ? absl::StrCat("from slot ", round.source->slot,
                                                                   "'s replica at clock ", clock)
                                                    : absl::StrCat("from clock ", clock);
  change.events.push_back(
      job.record.has_met()
          ? absl::StrCat(who, " again in round ", record.number(), ", ", from, ended)
          : absl::StrCat(who, " in generation ", job.record.generation(), ": ",
                         DescribeMeeting(met, job.record.spec())));
  ScaleBatch(static_cast<uint32_t>(round.peers.size()), met, clock, change);
  SetMet(met, jobs_.NowUnixMs(), change.record);
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  for (const v1::CollectivePeer& peer : round.peers) {
    job.tasks[peer.slot()].heard = true;
    job.tasks[peer.slot()].not_awaited = false;
  }
  return absl::OkStatus();
}

absl::Status JobLifecycle::RoundBroke(Job& job, uint32_t slot) {
  const std::string failures = DescribeFailures(job.rendezvous.Failures(), job.record);
  const std::string why = absl::StrCat("slot ", slot, " left round ", job.record.round().number(),
                                       ", which broke", failures.empty() ? "" : ": ", failures);
  if (IsComplete(job.record)) {
    return Finish(job, v1::SUCCEEDED, "", absl::StrCat("succeeded, though ", why));
  }
  return GoBack(job, why);
}

absl::Status JobLifecycle::ReplicasLost(Job& job, const std::string& why) {
  return GoBack(job, why);
}

absl::Status JobLifecycle::GiveBackSlots(Job& job, const std::string& for_job) {
  const std::string why =
      absl::StrCat("gives its slots back to job ", for_job, ", which comes first");
  std::vector<uint32_t> held;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    const v1::SlotRecord& holder = job.record.slots(slot);
    if (!holder.done() && !holder.worker_id().empty()) held.push_back(slot);
  }
  if (EndsGeneration(job.record, held)) return GoBack(job, why);
  JobChange change{.record = job.record};
  for (uint32_t slot : held) LoseSlot(slot, change.record);
  change.events.push_back(why);
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  ForgetTasks(job, held, absl::AbortedError(absl::StrCat("job ", job.id(), " ", why)));
  return absl::OkStatus();
}

absl::Status JobLifecycle::SlotsLeave(Job& job, const std::vector<uint32_t>& slots,
                                      HandedOver handed_over) {
  JobChange change{.record = job.record};
  for (uint32_t slot : slots) {
    const std::string& worker = job.record.slots(slot).worker_id();
    const std::string& wanted_by = job.tasks[slot].wanted_by;
    const std::string why = !wanted_by.empty()
                                ? absl::StrCat(", for which job ", wanted_by, " waits")
                            : HasLeft(job.record, worker) ? ", which the job has left"
                                                          : ", which must end";
    change.events.push_back(absl::StrCat("slot ", slot, " leaves worker ", worker, why,
                                         ", at clock ", job.progress.clock(slot)));
  }
  if (handed_over == HandedOver::kNo && EndsGeneration(job.record, slots))
    return GoBack(job, change.events.front().text);
  MUSTER_RETURN_IF_ERROR(
      GiveUp(job, slots, std::move(change), "the worker must end; another task takes the slot"));
  for (uint32_t slot : slots) job.tasks[slot].not_awaited = true;
  return absl::OkStatus();
}

absl::Status JobLifecycle::LeaveWorkers(Job& job,
                                        const std::map<std::string, std::string>& reasons) {
  JobChange change{.record = job.record};
  for (const auto& [worker, reason] : reasons) {
    Leave(change.record, worker, reason, jobs_.NowUnixMs());
    change.events.emplace_back(absl::StrCat("the job leaves worker ", worker, ", which ", reason),
                               v1::JobEvent::LEFT);
  }
  const std::vector<uint32_t> slots = SlotsOnLeftWorkers(change.record);
  const std::string why = change.events.front().text;
  if (EndsGeneration(job.record, slots)) {
    // This is not counted as a roll-back: each time there is one worker less.
    return GoBackWith(job, why, /*rollbacks=*/1, std::move(change));
  }
  return GiveUp(job, slots, std::move(change), absl::StrCat(why, "; this task must end"));
}

absl::Status JobLifecycle::GiveUp(Job& job, const std::vector<uint32_t>& slots, JobChange change,
                                  absl::string_view why) {
  if (Hurts(job.record, slots)) change.record.set_state(v1::RECOVERING);
  for (uint32_t slot : slots) LoseSlot(slot, change.record);
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  metrics_.respawned_slots.Increment(static_cast<double>(slots.size()));
  ForgetTasks(job, slots, absl::AbortedError(why));
  return absl::OkStatus();
}

absl::Status JobLifecycle::Heard(Job& job, uint32_t slot, uint64_t clock) {
  job.tasks[slot].heard = true;
  const bool first_step =
      job.record.has_met() && !job.record.has_run() && clock > job.record.start_clock();
  // All-reduce jobs are whole again when their tasks have met. So are programs, except after the
  // loss of a server, when their tasks go on without a meeting.
  const bool meets = TrainsByAllReduce(job.record.spec()) && !NeedsServers(job.record.spec());
  const bool whole = job.record.state() == v1::RECOVERING && !meets && IsWhole(job);
  // A copy of the record would be most of what a report costs a large job.
  if (!first_step && !whole) return absl::OkStatus();
  JobChange change{.record = job.record};
  if (first_step) change.record.set_has_run(true);
  if (whole) {
    change.record.set_state(v1::RUNNING);
    change.events.push_back("recovered");
  }
  return jobs_.Commit(job, std::move(change));
}

bool JobLifecycle::IsWhole(const Job& job) const {
  if (!job.record.has_met() || FindLosses(job.record, members_).any_server()) return false;
  for (const uint32_t slot : TrainingSlots(job.record)) {
    const v1::SlotRecord& holder = job.record.slots(slot);
    if (holder.done()) continue;
    if (holder.worker_id().empty() || !job.tasks[slot].heard) return false;
  }
  return true;
}

absl::Status JobLifecycle::TaskEnded(Job& job, uint32_t slot, int code, absl::string_view message,
                                     v1::TaskReport::Loss loss) {
  if (code == 0) {
    if (job.record.slots(slot).done()) return MaybeSucceed(job);
    JobChange change{.record = job.record};
    change.record.mutable_slots(slot)->set_done(true);
    change.events.push_back(absl::StrCat("slot ", slot, " is done"));
    MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
    return MaybeSucceed(job);
  }
  if (absl::StatusCode(code) == absl::StatusCode::kCancelled) {
    if (job.member_change.has_value()) return EndedForChange(job, slot);
    if (job.tasks[slot].leaves) return SlotsLeave(job, {slot}, HandedOver::kNo);
    if (MembersChangeOnServers(job.record.spec())) {
      // A coordinator that has ended since had told the task so.
      JobChange change{.record = job.record};
      change.events.push_back(absl::StrCat("slot ", slot,
                                           " ended to let the members change, of "
                                           "which nothing came; another task takes its place"));
      return GiveUp(job, {slot}, std::move(change), "another task takes the slot");
    }
  }
  const std::string what =
      absl::StrCat("slot ", slot, " on worker ", job.record.slots(slot).worker_id(), " ended with ",
                   CodeName(code), EndedBefore(job.record), ": ", message);
  if (loss != v1::TaskReport::LOSS_UNSPECIFIED && IsComplete(job.record)) {
    return Finish(job, v1::SUCCEEDED, "", absl::StrCat("succeeded, though ", what));
  }
  if (loss == v1::TaskReport::SERVER_STATE) {
    return GoBack(job, absl::StrCat("a server lost what it had acknowledged: ", what));
  }
  if (loss == v1::TaskReport::CHECKPOINT) return CheckpointDamaged(job, what, message);
  // The task has reported all steps that it has made.
  if (loss == v1::TaskReport::DIVERGED) return Diverged(job, job.progress.clock(slot) + 1, what);
  if (!MayRespawn(code) && !CanDoWithout(job.record, slot)) return Fail(job, what);
  const std::string early = EndBeforeAnyStep(job, code, message);
  // Elastic processes are lost, and started again, one by one.
  const bool alone = job.record.spec().model().program().elastic();
  const auto before = job.early_ends.find(alone ? slot : 0);
  if (!early.empty() && before != job.early_ends.end() && before->second == early &&
      !ToldRestarts(job.record)) {
    return Fail(job,
                absl::StrCat("the program ended in the same way twice before its first step, so it "
                             "is not started again (model.program.max_restarts, if it is set, says "
                             "how often it is): ",
                             what));
  }
  // A task that gave up often met a server that was just restarted, or is about to be given up. The
  // next task would meet the same before the coordinator knows of it, so it waits longer.
  MUSTER_RETURN_IF_ERROR(Respawn(job, slot, what, 1));
  job.early_ends[alone ? slot : 0] = early;
  return absl::OkStatus();
}

absl::Status JobLifecycle::EndedForChange(Job& job, uint32_t slot) {
  if (job.tasks[slot].ended_for_change) return absl::OkStatus();
  if (IsComplete(job.record)) return EndComplete(job);
  job.tasks[slot].ended_for_change = true;
  // The others would wait for this slot there.
  job.EndGathering();
  return absl::OkStatus();
}

absl::Status JobLifecycle::EndComplete(Job& job) {
  return Finish(job, v1::SUCCEEDED, "",
                "succeeded: all was done when the job's members were to change");
}

absl::Status JobLifecycle::TaskDied(Job& job, uint32_t slot, absl::string_view message) {
  return Respawn(job, slot,
                 absl::StrCat("slot ", slot, " on worker ", job.record.slots(slot).worker_id(),
                              " died", EndedBefore(job.record), ": ", message),
                 0);
}

absl::Status JobLifecycle::TaskStalled(Job& job, uint32_t slot, absl::Duration waited) {
  return Stalled(job, slot,
                 absl::StrCat("is stuck at clock ", job.progress.clock(slot),
                              ": the others have waited for it for ", absl::FormatDuration(waited),
                              ", and its task is ended (--stall-timeout-ms of the coordinator)"));
}

absl::Status JobLifecycle::ProgramSilent(Job& job, uint32_t slot, absl::string_view why) {
  return Stalled(job, slot, absl::StrCat(why, EndedBefore(job.record)));
}

absl::Status JobLifecycle::Stalled(Job& job, uint32_t slot, absl::string_view why) {
  const std::string what =
      absl::StrCat("slot ", slot, " on worker ", job.record.slots(slot).worker_id(), " ", why);
  MUSTER_RETURN_IF_ERROR(Respawn(job, slot, what, 0));
  jobs_.Alert(job, JobAlert::Kind::kStalled, what);
  return absl::OkStatus();
}

absl::Status JobLifecycle::Respawn(Job& job, uint32_t slot, absl::string_view why,
                                   uint32_t patience) {
  if (IsComplete(job.record)) {
    return Finish(job, v1::SUCCEEDED, "", absl::StrCat("succeeded, though ", why));
  }
  if (EndsGeneration(job.record, {slot})) return GoBack(job, std::string(why));
  JobChange change{.record = job.record};
  const bool hurts = Hurts(job.record, {slot});
  const uint32_t failures = CountFailure(slot, job.progress.clock(slot), change.record);
  if (failures > MostFailures(job.record.spec()) && !CanDoWithout(job.record, slot)) {
    return Fail(job, absl::StrCat("failure ", failures, " of one slot without progress: ", why));
  }
  LoseSlot(slot, change.record);
  if (hurts) change.record.set_state(v1::RECOVERING);
  const absl::Duration delay = RespawnDelay(failures + patience, members_.lease());
  change.events.emplace_back(absl::StrCat(why, "; another task takes its place", TellDelay(delay)),
                             v1::JobEvent::LOSS);
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  metrics_.respawned_slots.Increment();
  ForgetTasks(job, {slot}, absl::AbortedError(absl::StrCat("slot ", slot, " has a later task")));
  job.tasks[slot].not_before = clock_.Monotonic() + delay;
  return absl::OkStatus();
}

void JobLifecycle::ForgetTasks(Job& job, const std::vector<uint32_t>& slots,
                               const absl::Status& status) {
  for (uint32_t slot : slots) {
    job.tasks[slot] = TaskState{};
    job.rendezvous.Forget(slot);
    job.evaluation.Forget(slot);
    job.adjusting.Forget(slot);
    job.verifying.Forget(slot);
    job.program_parts.Forget(slot);
    job.AnswerSlot(slot, status);
  }
  // A round that lost a task cannot complete its evaluation, which the others would wait for.
  if (job.record.round().number() > 0 && !RoundLasts(job.record, job.rendezvous)) {
    job.EndGathering();
  }
}

absl::Status JobLifecycle::MaybeSucceed(Job& job) {
  const v1::JobRecord& record = job.record;
  if (!AllDone(record)) return absl::OkStatus();
  // A program decides by itself whether it keeps anything.
  const bool trains = !OnlyEvaluates(record.spec()) && !RunsProgram(record.spec());
  const uint64_t kept = LastSoundClock(record, 0);
  if (!record.has_met()) return Fail(job, "its tasks ended before they met");
  if (trains && record.initial_resumes() && FinalClock(record) <= record.initial_clock()) {
    return Fail(job, absl::StrCat("resume_from is \"", record.spec().resume_from(),
                                  "\", which is at step ", record.initial_clock(),
                                  ", but the job stops at step ", FinalClock(record),
                                  ": nothing was left to train; stop later, or go on from an "
                                  "earlier checkpoint"));
  }
  if (trains && (LastSound(record) == nullptr || kept < FinalClock(record))) {
    return Fail(job, absl::StrCat("its tasks ended without a checkpoint at clock ",
                                  FinalClock(record), "; the last one is at clock ", kept));
  }
  return Finish(job, v1::SUCCEEDED, "",
                absl::StrCat("succeeded", DroppedExamples(record.spec(), job.progress.record())));
}

absl::Status JobLifecycle::Fail(Job& job, const std::string& message) {
  if (IsFinal(job.record.state())) return absl::OkStatus();
  return Finish(job, v1::FAILED, message, absl::StrCat("failed: ", message));
}

absl::Status JobLifecycle::Cancel(Job& job, const std::string& reason) {
  if (IsFinal(job.record.state())) return absl::OkStatus();
  const std::string kept = LastSound(job.record) == nullptr
                               ? "no checkpoint yet"
                               : absl::StrCat("its last checkpoint, at clock ",
                                              LastSoundClock(job.record, 0), ", is kept");
  const std::string message =
      absl::StrCat("cancelled: ", reason.empty() ? "no reason given" : reason,
                   "; its tasks stop within ", absl::FormatDuration(members_.lease()), "; ", kept);
  return Finish(job, v1::CANCELLED, message, message);
}

absl::Status JobLifecycle::Finish(Job& job, v1::JobState state, const std::string& message,
                                  const std::string& event) {
  JobChange change{.record = job.record};
  change.record.set_state(state);
  change.record.set_message(ToUtf8(message));
  change.record.set_finished_unix_ms(jobs_.NowUnixMs());
  change.events.push_back(event);
  for (const std::string& former : job.record.former_servers()) {
    change.drops[former] = job.record.generation();
  }
  for (const v1::ServerRecord& server : job.record.servers()) {
    change.drops[server.server_id()] = job.record.generation();
  }
  change.record.clear_former_servers();
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  job.log_open_until = clock_.Monotonic() + kToTellLastText;
  if (RunsProgram(job.record.spec())) {
    *job.log_open_until += absl::Seconds(job.record.spec().model().program().grace_seconds());
  }
  job.waiting_for.clear();
  job.wait_reason = WaitReason::kNothing;
  job.checkpoint_waits_for.clear();
  job.round_failures.clear();
  job.missing_servers.clear();
  // Scores gathered for an evaluation may take much memory.
  job.evaluation.Clear();
  job.adjusting.Clear();
  job.verifying.Clear();
  job.program_parts.Clear();
  job.rendezvous.Clear();
  job.open_round.reset();
  job.member_change.reset();
  job.AnswerAll(
      absl::NotFoundError(absl::StrCat("job ", job.id(), " has ended as ", v1::JobState_Name(state),
                                       message.empty() ? "" : ": ", message)));
  return absl::OkStatus();
}

}  // namespace muster
