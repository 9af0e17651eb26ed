#include "server/coordinator/requests/job_status.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/mesh.h"
#include "common/text/utf8.h"
#include "server/coordinator/checkpoints/best_checkpoint.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/cluster/tensor_groups.h"
#include "server/coordinator/history/expert_sums.h"
#include "server/coordinator/history/slot_times.h"
#include "server/coordinator/job/find_checkpoint.h"
#include "server/coordinator/job/goodput.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/round_record.h"
#include "server/coordinator/requests/hidden_environment.h"

namespace muster {
namespace {

constexpr char kRunning[] = "RUNNING";

// Most bytes of JobStatus.traceback, and what begins a traceback of Python's.
constexpr size_t kMostTracebackBytes = 4 << 10;
constexpr char kTraceback[] = "Traceback (most recent call last)";

const char* StateOf(const Job& job, uint32_t slot) {
  const v1::SlotRecord& holder = job.record.slots(slot);
  if (holder.done()) return "DONE";
  if (holder.worker_id().empty() || !IsActive(job.record.state())) return "LOST";
  return job.tasks[slot].heard ? kRunning : "STARTING";
}

bool HasTimes(const Job& job, uint32_t slot) {
  return StateOf(job, slot) == absl::string_view(kRunning) &&
         !job.progress.times()[slot].parts().empty();
}

void AddSlowSlots(const Job& job, v1::JobStatus& status) {
  if (!IsActive(job.record.state())) return;
  const std::vector<std::string> slow = SlowSlots(job.progress.times());
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    if (slow[slot].empty() || !HasTimes(job, slot)) continue;
    v1::SlowSlot& added = *status.add_slow_slots();
    added.set_slot(slot);
    added.set_reason(slow[slot]);
  }
}

// Adds the times of the tasks' last steps, and which tasks are slow. REQUIRES: AddSlowSlots.
void AddTimes(const Job& job, v1::JobStatus& status) {
  auto slow = status.slow_slots().begin();
  for (v1::TaskStatus& task : *status.mutable_tasks()) {
    if (!HasTimes(job, task.slot())) continue;
    *task.mutable_last_steps() = ToProto(job.progress.times()[task.slot()].sums());
    if (slow == status.slow_slots().end() || slow->slot() != task.slot()) continue;
    task.set_slow(slow->reason());
    ++slow;
  }
}

void AddLoads(const Job& job, v1::JobStatus& status) {
  const ExpertSums loads = job.progress.expert_loads();
  if (!loads.empty()) loads.CopyTo(*status.mutable_expert_loads());
}

void AddDamage(const v1::JobRecord& record, v1::JobStatus& status) {
  for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
    if (checkpoint.damage().empty()) continue;
    v1::DamagedCheckpoint& added = *status.add_damaged_checkpoints();
    added.set_clock(checkpoint.clock());
    added.set_damage(checkpoint.damage());
  }
}

void AddTasks(const Job& job, v1::JobStatus& status) {
  const uint32_t workers = job.record.spec().workers();
  const bool has_all = PlacedSlots(job.record) >= workers;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    const v1::SlotRecord& holder = job.record.slots(slot);
    // The job can do without this slot, and nobody misses a task there.
    if (job.slots() > workers && holder.worker_id().empty() && (has_all || slot >= workers)) {
      continue;
    }
    const bool worked = job.progress.record().slots(slot).steps() > 0;
    // An ended job shows only tasks that finished or trained; a waiting job has none yet.
    if (!holder.done() && !worked && !IsActive(job.record.state())) continue;
    v1::TaskStatus& task = *status.add_tasks();
    task.set_slot(slot);
    task.set_worker_id(holder.worker_id());
    task.set_incarnation(holder.incarnation());
    job.progress.Describe(slot, task);
    task.set_state(StateOf(job, slot));
  }
}

std::string Recovery(const v1::JobRecord& record) {
  const std::string back =
      absl::StrCat("rolls back to clock ", LastSoundClock(record, record.initial_clock()));
  if (record.spec().update().durability() == v1::UpdateSpec::EVERY_PUSH) {
    return absl::StrCat("continues in place; if the server's data folder is lost, ", back);
  }
  if (RunsProgram(record.spec()) && record.spec().model().program().elastic()) {
    return "starts the lost process alone again";
  }
  if (NeedsServers(record.spec()) || LossIsFinal(record.spec())) return back;
  if (!RanksDivideState(record.spec(), record.spec().workers())) {
    return absl::StrCat("continues from another worker's replica; without any, ", back);
  }
  const bool copies = record.spec().parallelism().zero().redundancy() > 0;
  return absl::StrCat("continues with ", copies ? "the copy" : "a replica",
                      " of the lost worker's slice; without it, ", back);
}

// Adds the slots' coordinates.
void AddCoordinates(const v1::JobSpec& spec, v1::JobStatus& status) {
  const Mesh mesh = MeshOf(spec, MostWorkers(spec));
  for (v1::TaskStatus& task : *status.mutable_tasks()) {
    for (const auto& [name, axes] : JobAxes()) {
      if (mesh.size(axes) == 1) continue;
      v1::Coordinate& coordinate = *task.add_coordinates();
      coordinate.set_axis(std::string(name));
      coordinate.set_position(mesh.Position(static_cast<int>(task.slot()), axes));
    }
  }
}

// Adds the replays of the job's present servers that recovered it from their logs.
void AddReplays(const Job& job, v1::JobStatus& status) {
  std::set<std::string> servers;
  for (const v1::PartitionPlacement& partition : job.record.partitions()) {
    for (const v1::Replica& replica : partition.replicas()) servers.insert(replica.server_id());
  }
  for (const auto& [server, replay] : job.replays) {
    const bool present = servers.count(server) > 0;
    if (present && replay.generation() == job.record.generation() && replay.partitions() > 0) {
      *status.add_replays() = replay;
    }
  }
}

void SetShortSpec(const v1::JobSpec& spec, v1::JobSpec& shown) {
  shown.set_name(spec.name());
  shown.set_owner(spec.owner());
  shown.set_namespace_(spec.namespace_());
  shown.set_description(spec.description());
  *shown.mutable_labels() = spec.labels();
}

// Returns the number of partitions of all jobs by server.
std::map<std::string, uint32_t> PartitionsByServer(const JobTable& jobs) {
  std::map<std::string, uint32_t> partitions;
  for (const auto& [number, job] : jobs.jobs()) {
    if (!IsActive(job->record.state())) continue;
    for (const v1::PartitionPlacement& partition : job->record.partitions()) {
      for (const v1::Replica& replica : partition.replicas()) ++partitions[replica.server_id()];
    }
  }
  return partitions;
}

// Returns the last lines that the program of a failed job printed, from its last traceback on. A
// task tells of its program's end in one line, and of what it printed in the lines after, which end
// the job's message.
std::string TracebackOf(const v1::JobRecord& record) {
  if (record.state() != v1::FAILED || !RunsProgram(record.spec())) return "";
  absl::string_view printed = record.message();
  printed.remove_prefix(std::min(printed.size(), printed.find('\n')));
  absl::ConsumePrefix(&printed, "\n");
  const size_t traceback = printed.rfind(kTraceback);
  if (traceback != absl::string_view::npos) printed.remove_prefix(traceback);
  if (printed.size() > kMostTracebackBytes) {
    printed = SkipToCharacter(printed.substr(printed.size() - kMostTracebackBytes));
  }
  return std::string(printed);
}

// Returns the first line of an event; what a program printed may follow it.
std::string FirstLine(absl::string_view event) {
  return std::string(event.substr(0, event.find('\n')));
}

std::string MessageOf(const Job& job) {
  if (IsFinal(job.record.state())) return job.record.message();
  const std::string rollback = FirstLine(job.record.last_rollback());
  const std::string event = job.events.empty() ? rollback : FirstLine(job.events.back().text());
  if (rollback.empty() || event == rollback) return event;
  // The roll-back stays visible: what the job had done since the checkpoint is lost.
  return absl::StrCat(event, " (went back before: ", rollback, ")");
}

}  // namespace

v1::JobStatus StatusOf(const Job& job, int64_t now_unix_ms, JobView view) {
  const v1::JobRecord& record = job.record;
  v1::JobStatus status;
  status.set_job_id(record.job_id());
  status.set_state(record.state());
  status.set_message(MessageOf(job));
  status.set_traceback(TracebackOf(record));
  status.set_waiting_for(!job.waiting_for.empty()            ? job.waiting_for
                         : !job.checkpoint_waits_for.empty() ? job.checkpoint_waits_for
                                                             : job.leave_waits_for);
  status.set_generation(record.generation());
  status.set_shard_map_version(record.shard_map_version());
  const uint64_t total =
      record.met().total_steps() > 0 ? record.met().total_steps() : record.spec().stop().steps();
  *status.mutable_progress() = job.progress.Progress(total);
  status.set_predicted_server_bytes(record.predicted_server_bytes());
  status.set_predicted_worker_bytes(record.predicted_worker_bytes());
  status.set_predicted_device_bytes(record.predicted_device_bytes());
  if (const v1::CheckpointRecord* last = LastSound(record)) {
    status.set_checkpoint_clock(last->clock());
    status.set_checkpoint_uri(last->uri());
  }
  if (const v1::EvaluationResult* best = BestEvaluation(record)) *status.mutable_best() = *best;
  status.set_submitted_unix_ms(record.submitted_unix_ms());
  status.set_started_unix_ms(record.started_unix_ms());
  status.set_finished_unix_ms(record.finished_unix_ms());
  status.set_recovery(Recovery(record));
  AddSlowSlots(job, status);
  AddDamage(record, status);
  if (view == JobView::kShort) {
    SetShortSpec(record.spec(), *status.mutable_spec());
    if (!record.evaluations().empty()) {
      v1::EvaluationResult& last = *status.add_evaluations();
      last = *record.evaluations().rbegin();
      last.clear_confusion();
    }
  } else {
    *status.mutable_spec() = record.spec();
    HideEnvironment(*status.mutable_spec());
    *status.mutable_evaluations() = record.evaluations();
    *status.mutable_partitions() = record.partitions();
    *status.mutable_given() = record.given();
    *status.mutable_adjustments() = record.adjustments();
    *status.mutable_left_workers() = record.left_workers();
    AddTasks(job, status);
    AddCoordinates(record.spec(), status);
    if (IsActive(record.state())) {
      for (std::string& group : SplitTensorGroups(record)) {
        status.add_split_groups(std::move(group));
      }
    }
    AddTimes(job, status);
    if (record.started_unix_ms() > 0) {
      *status.mutable_goodput() = GoodputOf(record, job.progress.record(), now_unix_ms);
    }
    status.set_dropped_examples(record.progress().dropped_examples());
    AddLoads(job, status);
    AddReplays(job, status);
  }
  return status;
}

std::vector<v1::DaemonStatus> DaemonsOf(const JobTable& jobs, const Membership& members,
                                        absl::Duration now) {
  const std::map<std::string, Reserved> reserved = ReservedBy(jobs, members);
  const std::map<std::string, uint32_t> partitions = PartitionsByServer(jobs);
  std::vector<v1::DaemonStatus> daemons;
  for (const auto& [id, member] : members.members()) {
    v1::DaemonStatus& daemon = daemons.emplace_back();
    daemon.set_id(id);
    daemon.set_kind(member.kind());
    daemon.set_address(member.record.address());
    daemon.set_incarnation(member.record.incarnation());
    daemon.set_live(member.live);
    if (!member.live) {
      daemon.set_lost_for_ms(
          absl::ToInt64Milliseconds(std::max(now - member.lease_ends, absl::Milliseconds(1))));
    }
    daemon.set_slots(member.record.slots());
    daemon.set_memory_bytes(member.record.memory_bytes());
    *daemon.mutable_devices() = member.record.devices();
    daemon.set_processors(member.record.processors());
    daemon.set_allows_programs(member.record.allows_programs());
    if (const auto it = partitions.find(id); it != partitions.end()) {
      daemon.set_partitions(it->second);
    }
    if (const auto it = reserved.find(id); it != reserved.end()) {
      daemon.set_slots_used(it->second.slots);
      daemon.set_devices_used(it->second.devices);
      daemon.set_memory_reserved_bytes(it->second.bytes);
    }
  }
  return daemons;
}

}  // namespace muster
