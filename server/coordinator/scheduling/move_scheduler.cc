#include "server/coordinator/scheduling/move_scheduler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/cluster/shard_map.h"
#include "server/coordinator/job/find_checkpoint.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/scheduling/hot_partitions.h"

namespace muster {
namespace {

// Pause before a job's next move after one that failed.
constexpr absl::Duration kPauseAfterFailure = absl::Seconds(10);
// Longest pause before the job's next move to the server that failed; each failure doubles it.
constexpr absl::Duration kLongestPause = absl::Minutes(10);
// Pause before a job's next move by load, after one, and between two looks at its loads.
constexpr absl::Duration kHotPause = absl::Minutes(1);
constexpr absl::Duration kHotLookInterval = absl::Seconds(1);

bool IsDurable(const v1::JobRecord& record) {
  return record.spec().update().durability() == v1::UpdateSpec::EVERY_PUSH;
}

std::string Name(const v1::MoveRecord& move) {
  return absl::StrCat("move of partition ", move.partition(), " from ", move.from_server(), " to ",
                      move.to_server());
}

bool IsUnderWay(const v1::JobRecord& record) {
  return std::any_of(record.moves().begin(), record.moves().end(), [](const v1::MoveRecord& move) {
    return move.state() == v1::MoveRecord::COPYING;
  });
}

// Returns the index in the record of the move that a report names; -1: it is over.
int FindMove(const v1::JobRecord& record, const v1::MoveReport& report) {
  for (int i = 0; i < record.moves_size(); ++i) {
    if (record.moves(i).partition() == report.partition() &&
        record.moves(i).term() == report.term()) {
      return i;
    }
  }
  return -1;
}

// Adds which jobs' tasks a worker that is being drained still runs.
void AddTasks(const JobTable& jobs, const Member& worker, v1::DrainStatus& drain) {
  if (!worker.live) return;
  for (const auto& [number, job] : jobs.jobs()) {
    if (!IsActive(job->record.state())) continue;
    std::vector<int> slots;
    for (int slot = 0; slot < job->record.slots_size(); ++slot) {
      const v1::SlotRecord& holder = job->record.slots(slot);
      if (!holder.done() && holder.worker_id() == worker.record.id() &&
          holder.worker_incarnation() == worker.record.incarnation()) {
        slots.push_back(slot);
      }
    }
    if (slots.empty()) continue;
    drain.add_waiting_for(absl::StrCat("job ", job->id(), " has slot ", absl::StrJoin(slots, ", "),
                                       " here until it ends or the worker stops"));
  }
}

}  // namespace

MoveScheduler::MoveScheduler(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle,
                             const Clock& clock)
    : jobs_(jobs), members_(members), lifecycle_(lifecycle), clock_(clock) {}

absl::StatusOr<v1::DrainServerReply> MoveScheduler::Drain(const v1::DrainServerRequest& request) {
  const std::string& id = request.server_id();
  const bool draining = jobs_.draining().count(id) > 0;
  v1::DrainServerReply reply;
  reply.mutable_drain()->set_server_id(id);
  if (request.undo()) {
    if (draining) MUSTER_RETURN_IF_ERROR(jobs_.EndDrain(id));
    return reply;
  }
  const Member* member = members_.Find(id);
  if (member == nullptr && !draining) {
    return absl::NotFoundError(absl::StrCat("there is no server or worker ", id,
                                            "; muster cluster lists those there are"));
  }
  if (!draining) MUSTER_RETURN_IF_ERROR(jobs_.Drain(id));
  MUSTER_RETURN_IF_ERROR(Run());
  for (v1::DrainStatus& drain : Drains()) {
    if (drain.server_id() == id) *reply.mutable_drain() = std::move(drain);
  }
  return reply;
}

absl::Status MoveScheduler::Rebalance(const std::string& job_id) {
  Job* job = jobs_.Find(job_id);
  if (job == nullptr) return absl::NotFoundError(absl::StrCat("there is no job ", job_id));
  const v1::JobRecord& record = job->record;
  if (!IsActive(record.state()) || record.servers().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id, " is ", v1::JobState_Name(record.state()),
                     " and holds no partitions on servers now; there is nothing to move"));
  }
  const int asked = record.spec().servers();
  if (asked > 0 && !IsDurable(record)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job_id, " asks for servers: ", asked, " and is on ", record.servers_size(),
        ", evenly; leave `servers` out of a job that is to "
        "take part in what joins"));
  }
  if (record.rebalance()) return absl::OkStatus();
  JobChange change{.record = record};
  change.record.set_rebalance(true);
  change.events.push_back("asked to spread its partitions over all servers");
  return jobs_.Commit(*job, std::move(change));
}

absl::Status MoveScheduler::TakeReports(const v1::HeartbeatRequest& request) {
  const Member* member = members_.Find(request.id());
  if (member != nullptr && member->kind() == v1::SERVER) loads_.Take(request, clock_.Monotonic());
  absl::Status status;
  for (const v1::MoveReport& report : request.moves()) {
    Job* job = jobs_.Find(report.job_id());
    if (job == nullptr || !IsActive(job->record.state()) ||
        report.generation() != job->record.generation()) {
      continue;
    }
    const int index = FindMove(job->record, report);
    if (index < 0) continue;
    const v1::MoveRecord& move = job->record.moves(index);
    const bool copies = move.state() == v1::MoveRecord::COPYING && move.to_server() == request.id();
    const bool releases =
        (move.state() == v1::MoveRecord::MOVED && move.from_server() == request.id()) ||
        (move.state() == v1::MoveRecord::GIVEN_UP && move.to_server() == request.id());
    if (report.state() == v1::MoveReport::ADOPTED && copies) {
      status.Update(Complete(*job, index));
    } else if (report.state() == v1::MoveReport::FAILED && copies) {
      NoteFailure(*job, move.to_server());
      status.Update(GiveUp(*job, index, report.message()));
    } else if (report.state() == v1::MoveReport::RELEASED && releases) {
      JobChange change{.record = job->record};
      change.record.mutable_moves()->DeleteSubrange(index, 1);
      status.Update(jobs_.Commit(*job, std::move(change)));
    }
  }
  return status;
}

absl::Status MoveScheduler::Complete(Job& job, int index) {
  JobChange change{.record = job.record};
  v1::MoveRecord& move = *change.record.mutable_moves(index);
  const Member* owner = members_.Find(move.to_server());
  MovePartition(move.partition(), IdentityOf(owner->record), BytesPerPartition(change.record),
                change.record);
  move.set_state(v1::MoveRecord::MOVED);
  failures_.erase({job.id(), move.to_server()});
  next_hot_look_[job.id()] = clock_.Monotonic() + kHotPause;
  change.events.emplace_back(
      absl::StrCat("partition ", move.partition(), " moved from ", move.from_server(), " to ",
                   move.to_server(), "; shard map version ", change.record.shard_map_version()),
      v1::JobEvent::MOVE);
  return jobs_.Commit(job, std::move(change));
}

absl::Status MoveScheduler::GiveUp(Job& job, int index, const std::string& why) {
  JobChange change{.record = job.record};
  v1::MoveRecord& move = *change.record.mutable_moves(index);
  move.set_state(v1::MoveRecord::GIVEN_UP);
  change.events.push_back(absl::StrCat(Name(move), " given up: ", why));
  return jobs_.Commit(job, std::move(change));
}

void MoveScheduler::NoteFailure(const Job& job, const std::string& server) {
  const absl::Duration now = clock_.Monotonic();
  not_before_[job.id()] = now + kPauseAfterFailure;
  Failure& failure = failures_[{job.id(), server}];
  failure.pause = std::min(std::max(kPauseAfterFailure, 2 * failure.pause), kLongestPause);
  failure.not_before = now + failure.pause;
}

std::vector<std::string> MoveScheduler::Resting(const Job& job) const {
  std::vector<std::string> servers;
  for (const auto& [key, failure] : failures_) {
    const Member* member = members_.Find(key.second);
    if (key.first == job.id() && member != nullptr && member->live &&
        jobs_.draining().count(key.second) == 0 && clock_.Monotonic() < failure.not_before) {
      servers.push_back(key.second);
    }
  }
  return servers;
}

bool MoveScheduler::IsBeingDeleted(const v1::MoveRecord& move) const {
  if (move.state() == v1::MoveRecord::COPYING) return false;
  const Member* member =
      members_.Find(move.state() == v1::MoveRecord::MOVED ? move.from_server() : move.to_server());
  return member != nullptr && member->live;
}

void MoveScheduler::Wait(const Job& job, std::string why) { waiting_[job.id()] = std::move(why); }

absl::Status MoveScheduler::Run() {
  waiting_.clear();
  for (auto it = leaving_.begin(); it != leaving_.end();) {
    const Job* job = jobs_.Find(it->first);
    it = job == nullptr || job->record.generation() != it->second.generation ? leaving_.erase(it)
                                                                             : std::next(it);
  }
  for (auto it = failures_.begin(); it != failures_.end();) {
    const Job* job = jobs_.Find(it->first.first);
    it = job == nullptr || !IsActive(job->record.state()) ? failures_.erase(it) : std::next(it);
  }
  for (auto it = next_hot_look_.begin(); it != next_hot_look_.end();) {
    const Job* job = jobs_.Find(it->first);
    it =
        job == nullptr || !IsActive(job->record.state()) ? next_hot_look_.erase(it) : std::next(it);
  }
  absl::Status status;
  for (const auto& [number, job] : jobs_.jobs()) {
    if (IsActive(job->record.state()) && !job->record.servers().empty()) {
      status.Update(RunJob(*job));
    }
  }
  return status;
}

absl::Status MoveScheduler::RunJob(Job& job) {
  for (int i = 0; i < job.record.moves_size(); ++i) {
    const v1::MoveRecord& move = job.record.moves(i);
    if (move.state() != v1::MoveRecord::COPYING) continue;
    const Member* to = members_.Find(move.to_server());
    if (to == nullptr || !to->live) {
      MUSTER_RETURN_IF_ERROR(
          GiveUp(job, i, absl::StrCat("server ", move.to_server(), " was lost")));
    } else if (jobs_.draining().count(move.to_server()) > 0) {
      MUSTER_RETURN_IF_ERROR(
          GiveUp(job, i, absl::StrCat("server ", move.to_server(), " is being drained")));
    }
  }
  return IsDurable(job.record) ? MoveNext(job) : LeaveAfterCheckpoint(job);
}

absl::Status MoveScheduler::MoveNext(Job& job) {
  const v1::JobRecord& record = job.record;
  if (IsUnderWay(record)) return absl::OkStatus();
  if (job.member_change.has_value()) {
    Wait(job, absl::StrCat("job ", job.id(), " waits until its members have changed"));
    return absl::OkStatus();
  }
  const bool leaves = std::any_of(
      record.servers().begin(), record.servers().end(),
      [this](const v1::ServerRecord& s) { return jobs_.draining().count(s.server_id()) > 0; });
  const bool by_load =
      !leaves && !record.rebalance() && record.spec().update().move_hot_partitions();
  if (by_load) {
    absl::Duration& next_look = next_hot_look_[job.id()];
    if (clock_.Monotonic() < next_look) return absl::OkStatus();
    next_look = clock_.Monotonic() + kHotLookInterval;
  } else if (!leaves && !record.rebalance()) {
    return absl::OkStatus();
  }
  if (!record.has_run()) {
    Wait(job, absl::StrCat("job ", job.id(), " has yet to make its first step"));
    return absl::OkStatus();
  }
  if (FindLosses(record, members_).any_server()) {
    Wait(job, absl::StrCat("job ", job.id(), " waits for a server that was lost"));
    return absl::OkStatus();
  }
  if (const auto it = not_before_.find(job.id());
      it != not_before_.end() && clock_.Monotonic() < it->second) {
    Wait(job, absl::StrCat("job ", job.id(), " waits a little after a move that failed"));
    return absl::OkStatus();
  }
  auto excluded = DemandOf(record, jobs_).excluded_servers;
  const std::vector<std::string> resting = Resting(job);
  excluded.insert(resting.begin(), resting.end());
  if (by_load) return MoveHot(job, excluded);
  const auto planned = NextMove(record, CapacityOf(jobs_, members_), jobs_.draining(), excluded);
  if (!resting.empty() && (!planned.ok() || !planned->has_value())) {
    Wait(job,
         absl::StrCat("job ", job.id(), " waits before it tries ", absl::StrJoin(resting, ", "),
                      " again, after a move there that failed; its events have the reason"));
    return absl::OkStatus();
  }
  if (!planned.ok()) {
    Wait(job, std::string(planned.status().message()));
    return absl::OkStatus();
  }
  if (!planned->has_value()) {
    // A partition that is still being deleted may be in the way of the next move. A server that is
    // away does not count: it deletes what it has when it is back.
    if (std::any_of(record.moves().begin(), record.moves().end(),
                    [this](const v1::MoveRecord& move) { return IsBeingDeleted(move); })) {
      return absl::OkStatus();
    }
    JobChange change{.record = record};
    change.record.clear_rebalance();
    change.events.push_back("its partitions are spread evenly");
    return jobs_.Commit(job, std::move(change));
  }
  return Begin(job, **planned, "", v1::JobEvent::KIND_UNSPECIFIED);
}

absl::Status MoveScheduler::MoveHot(Job& job, const absl::flat_hash_set<std::string>& excluded) {
  const v1::JobRecord& record = job.record;
  const ClusterCapacity capacity = CapacityOf(jobs_, members_);
  MeasuredLoads loads;
  for (const ServerCapacity& server : capacity.servers) {
    const std::string& id = server.identity.server_id;
    PartitionLoads::Cores cores;
    // What a server does for a partition that it has just got is unknown yet.
    if (!loads_.Measure(id, clock_.Monotonic(), cores)) return absl::OkStatus();
    double& sum = loads.servers[id];
    for (const auto& [key, busy] : cores) {
      sum += busy;
      if (key.first == job.id()) loads.partitions[key.second] = busy;
    }
  }
  const std::optional<HotMove> hot = NextHotMove(record, loads, capacity, excluded);
  if (!hot.has_value()) return absl::OkStatus();
  return Begin(job, hot->move,
               absl::StrFormat(": %s keeps %.2f cores busy, %.2f of them with this partition, and "
                               "%s %.2f, over %s",
                               hot->move.from, hot->from, hot->partition, hot->move.to, hot->to,
                               absl::FormatDuration(PartitionLoads::kWindow)),
               v1::JobEvent::MOVE);
}

absl::Status MoveScheduler::Begin(Job& job, const PlannedMove& planned, const std::string& why,
                                  v1::JobEvent::Kind kind) {
  const v1::JobRecord& record = job.record;
  JobChange change{.record = record};
  change.record.set_term(record.term() + 1);
  v1::MoveRecord& move = *change.record.add_moves();
  move.set_partition(planned.partition);
  move.set_term(change.record.term());
  move.set_from_server(planned.from);
  move.set_to_server(planned.to);
  move.set_state(v1::MoveRecord::COPYING);
  // Whatever becomes of the move, the server has something to delete when the job ends.
  if (CountPartitions(move.to_server(), record) == 0) {
    AddFormerServer(move.to_server(), change.record);
  }
  change.events.emplace_back(absl::StrCat(Name(move), " begins", why), kind);
  return jobs_.Commit(job, std::move(change));
}

absl::Status MoveScheduler::LeaveAfterCheckpoint(Job& job) {
  const v1::JobRecord& record = job.record;
  std::vector<std::string> leaves;
  for (const v1::ServerRecord& server : record.servers()) {
    if (jobs_.draining().count(server.server_id()) > 0) leaves.push_back(server.server_id());
  }
  if (leaves.empty() && !record.rebalance()) {
    leaving_.erase(job.id());
    return absl::OkStatus();
  }
  const std::string why =
      leaves.empty()
          ? std::string("spreads its partitions over all servers")
          : absl::StrCat("leaves server ", absl::StrJoin(leaves, ", "), ", which is being drained");
  const uint64_t last = LastSoundClock(record, 0);
  if (const absl::Status fits =
          FitsElsewhere(record, DemandOf(record, jobs_), CapacityOf(jobs_, members_));
      !fits.ok()) {
    Wait(job, absl::StrCat("job ", job.id(), ": ", fits.message(),
                           "; start another server, or end the drain"));
    return absl::OkStatus();
  }
  // The generation has not advanced, so nothing is lost by starting it again.
  if (!record.has_run() && record.takes_over_generation() == 0) {
    return lifecycle_.PlaceAnew(job, why);
  }
  const auto [leaving, added] = leaving_.try_emplace(job.id(), Leaving{record.generation(), last});
  if (added) {
    MUSTER_RETURN_IF_ERROR(jobs_.AddEvent(
        job,
        absl::StrCat(why, " as soon as its next checkpoint is there; the last one is at clock ",
                     last)));
  }
  if (last > leaving->second.clock && !IsComplete(record)) {
    leaving_.erase(job.id());
    return lifecycle_.PlaceAnew(job, why);
  }
  Wait(job,
       absl::StrCat("job ", job.id(), " goes on elsewhere after its next checkpoint, or ends"));
  return absl::OkStatus();
}

std::vector<v1::DrainStatus> MoveScheduler::Drains() const {
  std::vector<v1::DrainStatus> drains;
  for (const std::string& server : jobs_.draining()) {
    v1::DrainStatus& drain = drains.emplace_back();
    drain.set_server_id(server);
    if (const Member* member = members_.Find(server);
        member != nullptr && member->kind() == v1::WORKER) {
      AddTasks(jobs_, *member, drain);
      continue;
    }
    uint32_t partitions = 0;
    for (const auto& [number, job] : jobs_.jobs()) {
      const v1::JobRecord& record = job->record;
      if (!IsActive(record.state())) continue;
      uint32_t held = CountPartitions(server, record);
      for (const v1::MoveRecord& move : record.moves()) {
        // The server has yet to delete the partition.
        if (move.state() == v1::MoveRecord::MOVED && move.from_server() == server &&
            IsBeingDeleted(move)) {
          ++held;
        }
      }
      partitions += held;
      if (const auto it = waiting_.find(job->id()); held > 0 && it != waiting_.end()) {
        drain.add_waiting_for(it->second);
      }
    }
    drain.set_partitions(partitions);
  }
  return drains;
}

}  // namespace muster
