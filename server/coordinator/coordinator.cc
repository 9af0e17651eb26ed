#include "server/coordinator/coordinator.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/rpc/membership/protocol.h"
#include "server/coordinator/checkpoints/moved_root.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

// Records that do not tell their protocol are of this one (DaemonRecord).
constexpr uint32_t kUntoldProtocol = 2;

uint32_t ProtocolOf(const v1::DaemonRecord& daemon) {
  return daemon.protocol_version() > 0 ? daemon.protocol_version() : kUntoldProtocol;
}

// Progress that a restart may lose.
constexpr absl::Duration kProgressInterval = absl::Seconds(5);

// Returns the slots whose reports make up the job's series. A program's processes may leave it to
// some of them to report, and need not make equally many steps.
std::vector<uint32_t> SeriesSlots(const Job& job) {
  std::vector<uint32_t> slots = TrainingSlots(job.record);
  if (!RunsProgram(job.record.spec())) return slots;
  std::erase_if(slots, [&](uint32_t slot) {
    return job.record.slots(slot).done() || !job.tasks[slot].has_reported;
  });
  return slots;
}

// Returns whether a step without a slot's loss shows that its report was lost. A program reports
// what steps it likes, a job that goes on with fewer workers makes some without the others, and
// with backup workers no step is made by all.
bool EachSlotMakesEachStep(const v1::JobSpec& spec) {
  return !RunsProgram(spec) && spec.min_workers() == 0 && spec.update().backup_workers() == 0;
}

std::string TextOf(const LossGap& gap) {
  const std::string steps = gap.first_step == gap.last_step
                                ? absl::StrCat("step ", gap.first_step)
                                : absl::StrCat("steps ", gap.first_step, " to ", gap.last_step);
  if (gap.slots.empty()) {
    return absl::StrCat("the history has no train/loss of ", steps,
                        ": the coordinator ended before it stored what tasks had reported");
  }
  return absl::StrCat("the history's train/loss of ", steps, " is without slot ",
                      absl::StrJoin(gap.slots, ", "),
                      ": its task, or the coordinator, ended before that was reported and stored");
}

std::string TextOf(const LossJump& jump) {
  return absl::StrCat("the training loss jumped to ", jump.loss, " at step ", jump.step,
                      "; the mean of the steps before is ", jump.mean);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(
    JobStore& store, CheckpointArchive& archive, const Clock& clock, SerialExecutor& logic,
    SerialExecutor& disk, SerialExecutor& planning, CoordinatorOptions options) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<JobTable> table,
                          JobTable::Load(store, clock,
                                         {.max_log_bytes = options.max_log_bytes,
                                          .identity = options.identity,
                                          .log = options.log,
                                          .alert = options.alert}));
  MUSTER_RETURN_IF_ERROR(FollowMovedRoot(*table, archive));
  return std::unique_ptr<Coordinator>(
      new Coordinator(std::move(table), archive, clock, logic, disk, planning, std::move(options)));
}

Coordinator::Coordinator(std::unique_ptr<JobTable> table, CheckpointArchive& archive,
                         const Clock& clock, SerialExecutor& logic, SerialExecutor& disk,
                         SerialExecutor& planning, CoordinatorOptions options)
    : options_(std::move(options)),
      clock_(clock),
      last_tick_(clock.Monotonic()),
      table_(std::move(table)),
      members_(options_.lease),
      metrics_(options_.metric_sources),
      lifecycle_(*table_, members_, clock, metrics_),
      departures_(*table_, members_, lifecycle_),
      slow_workers_(*table_, members_, clock, options_.slow_after),
      scheduler_(*table_, members_, lifecycle_, clock, metrics_, options_.elastic_wait),
      member_changes_(*table_, lifecycle_, clock, options_.lease, options_.elastic_wait),
      moves_(*table_, members_, lifecycle_, clock),
      checkpoints_(*table_, archive, logic, disk, clock, metrics_, options_.lease),
      checkpoint_requests_(*table_, checkpoints_, archive, disk),
      rounds_(*table_, lifecycle_, clock, options_.elastic_wait),
      stalls_(*table_, lifecycle_, clock, options_.lease, options_.stall_timeout),
      trace_requests_(*table_, clock),
      daemon_requests_(*table_, members_, lifecycle_, moves_, trace_requests_, clock, metrics_,
                       {options_.advertised_address, archive.root(), options_.stall_timeout,
                        options_.program_token},
                       options_.log),
      task_requests_(*table_, lifecycle_, checkpoints_, rounds_, metrics_.collectives(),
                     trace_requests_, clock),
      ship_requests_(*table_, archive.shipped(), logic, disk, clock, options_),
      submit_requests_(*table_, members_, archive, ship_requests_, logic, planning, metrics_,
                       options_),
      job_requests_(*table_, members_, lifecycle_, checkpoints_, clock, metrics_, options_,
                    [this](const Job& job) { return daemon_requests_.MayWrite(job); }),
      metrics_requests_(*table_, clock),
      examination_requests_(members_, clock, archive.root()) {
  for (const v1::DaemonRecord& daemon : table_->stored_daemons()) {
    // Another's heartbeats are answered with "register again", and its registration is refused.
    if (ProtocolOf(daemon) != kProtocolVersion) continue;
    members_.Restore(daemon, clock.Monotonic());
  }
  ship_requests_.Load();
}

v1::GetClusterReply Coordinator::Cluster() {
  v1::GetClusterReply cluster = job_requests_.Cluster();
  for (v1::DrainStatus& drain : moves_.Drains()) *cluster.add_drains() = std::move(drain);
  return cluster;
}

absl::Status Coordinator::Settle() {
  absl::Status status = daemon_requests_.AdmitRegistered();
  status.Update(moves_.Run());
  status.Update(departures_.Run());
  status.Update(scheduler_.Run());
  const uint64_t placed = table_->version();
  rounds_.OpenRounds();
  status.Update(member_changes_.Run());
  // A meeting that shows that all replicas of a job are lost frees its slots, and so do slots that
  // no longer train.
  if (table_->version() != placed) status.Update(scheduler_.Run());
  if (!status.ok()) metrics_.store_errors.Increment();
  trace_requests_.AnswerChanged();
  daemon_requests_.AnswerChanged();
  task_requests_.AnswerChanged();
  job_requests_.AnswerChanged();
  metrics_requests_.AnswerChanged();
  examination_requests_.AnswerChanged();
  settled_version_ = table_->version();
  return status;
}

absl::Status Coordinator::Tick() {
  // While this thread stood still (a slow disk, a paused machine), it heard nobody: silence in that
  // time says nothing about daemons and tasks.
  const absl::Duration now = clock_.Monotonic();
  const absl::Duration since_last = now - std::exchange(last_tick_, now);
  if (since_last > options_.lease / 4) {
    members_.Excuse(since_last);
    stalls_.Excuse(since_last);
  }
  // Who has called again in time keeps its lease.
  absl::Status status = daemon_requests_.AdmitRegistered();
  status.Update(daemon_requests_.ExpireLeases().status());
  status.Update(daemon_requests_.EndDropsOfLostServers());
  // Finds losses again that could not be stored when they were noticed.
  for (const auto& [number, job] : table_->jobs()) status.Update(lifecycle_.Reconcile(*job));
  status.Update(stalls_.Look());
  status.Update(slow_workers_.Look());
  job_requests_.Retire();
  checkpoints_.SweepEnded();
  ship_requests_.Sweep();
  status.Update(SettleHistories());
  status.Update(SaveProgress());
  status.Update(Settle());
  return status;
}

absl::Status Coordinator::SettleHistories() {
  absl::Status status;
  for (const auto& [number, job] : table_->jobs()) {
    if (job->history == nullptr || !job->history->history().waits()) continue;
    JobHistory& history = job->history->history();
    history.Settle(SeriesSlots(*job), clock_.Monotonic(), table_->NowUnixMs());
    for (const LossGap& gap : history.TakeGaps()) {
      if (!EachSlotMakesEachStep(job->record.spec())) continue;
      // The history is only for people.
      table_->AddEvent(*job, TextOf(gap)).IgnoreError();
    }
    const std::optional<LossJump> jump = history.TakeJump();
    if (!jump.has_value() || !IsActive(job->record.state())) continue;
    status.Update(lifecycle_.Diverged(*job, jump->step, TextOf(*jump)));
  }
  return status;
}

absl::Status Coordinator::SaveProgress() {
  const absl::Duration now = clock_.Monotonic();
  for (const auto& [number, job] : table_->jobs()) {
    const bool due = job->progress_unsaved && IsActive(job->record.state()) &&
                     now - job->progress_stored >= kProgressInterval;
    if (!due && !table_->HistoryIsDue(*job)) continue;
    MUSTER_RETURN_IF_ERROR(table_->SaveProgress(*job));
  }
  return absl::OkStatus();
}

void Coordinator::Shutdown() {
  const absl::Status status =
      absl::UnavailableError("the coordinator is shutting down; try again when it is back");
  daemon_requests_.AnswerAll(status);
  job_requests_.AnswerAll(status);
  metrics_requests_.AnswerAll(status);
  trace_requests_.AnswerAll(status);
  examination_requests_.AnswerAll(status);
  for (const auto& [number, job] : table_->jobs()) job->AnswerAll(status);
}

}  // namespace muster
