#include "server/coordinator/requests/checkpoint_requests.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/status_macros.h"
#include "common/text/utf8.h"
#include "server/coordinator/checkpoints/best_checkpoint.h"

namespace muster {
namespace {

// Describes a checkpoint by its record and its manifest.
v1::CheckpointStatus Describe(const CheckpointArchive& archive,
                              const v1::CheckpointRecord& checkpoint) {
  absl::StatusOr<v1::CheckpointStatus> read = archive.Describe(checkpoint.uri());
  v1::CheckpointStatus status;
  if (read.ok()) {
    status = *std::move(read);
  } else {
    status.set_damage(ToUtf8(read.status().message()));
  }
  // The record knows damage that a job found; the manifest may be sound nevertheless.
  if (!checkpoint.damage().empty()) status.set_damage(checkpoint.damage());
  status.set_clock(checkpoint.clock());
  status.set_uri(checkpoint.uri());
  if (checkpoint.has_base_clock()) status.set_base_clock(checkpoint.base_clock());
  return status;
}

// Returns the clocks of the job's checkpoints that go on from the one at `clock`, directly or not.
std::vector<uint64_t> DeltasOn(uint64_t clock, const v1::JobRecord& record) {
  std::vector<uint64_t> deltas;
  // Oldest first, so a base is seen before its deltas.
  for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
    if (checkpoint.has_base_clock() &&
        (checkpoint.base_clock() == clock ||
         std::find(deltas.begin(), deltas.end(), checkpoint.base_clock()) != deltas.end())) {
      deltas.push_back(checkpoint.clock());
    }
  }
  return deltas;
}

}  // namespace

CheckpointRequests::CheckpointRequests(JobTable& jobs, CheckpointLifecycle& lifecycle,
                                       CheckpointArchive& archive, SerialExecutor& disk)
    : jobs_(jobs), lifecycle_(lifecycle), archive_(archive), disk_(disk) {}

absl::StatusOr<Job*> CheckpointRequests::Find(const std::string& job_id) const {
  Job* job = jobs_.Find(job_id);
  if (job == nullptr || job->removing) {
    return absl::NotFoundError(
        absl::StrCat("there is no job \"", job_id, "\"; `muster list` shows all jobs"));
  }
  return job;
}

void CheckpointRequests::List(const std::string& job_id, Call<v1::ListCheckpointsReply> call) {
  const absl::StatusOr<Job*> job = Find(job_id);
  if (!job.ok()) return call.done(job.status());
  const auto& stored = (*job)->record.checkpoints();
  const std::vector<v1::CheckpointRecord> checkpoints(stored.begin(), stored.end());
  std::optional<uint64_t> best;
  if (const auto* evaluation = BestEvaluation((*job)->record)) best = evaluation->clock();
  disk_.Post([this, checkpoints, best, call = std::move(call)] {
    v1::ListCheckpointsReply reply;
    for (const v1::CheckpointRecord& checkpoint : checkpoints) {
      const absl::StatusOr<v1::CheckpointStatus> described = CatchOutOfMemory(
          "the call",
          [&]() -> absl::StatusOr<v1::CheckpointStatus> { return Describe(archive_, checkpoint); });
      if (!described.ok()) return call.done(described.status());
      v1::CheckpointStatus& added = *reply.add_checkpoints() = *described;
      added.set_best(added.clock() == best);
    }
    call.done(std::move(reply));
  });
}

absl::StatusOr<std::string> CheckpointRequests::Folder(const v1::CheckpointRequest& request) const {
  MUSTER_ASSIGN_OR_RETURN(const Job* job, Find(request.job_id()));
  if (request.best() && request.has_clock()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "clock is ", request.clock(), ", but best is true; name the checkpoint by one of the two"));
  }
  CheckpointName name{.job_id = request.job_id(), .clock = {}, .best = request.best()};
  if (request.has_clock()) name.clock = request.clock();
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointRecord* checkpoint,
                          FindNamedCheckpoint(job->record, name));
  return checkpoint->uri();
}

absl::StatusOr<v1::VerifyCheckpointReply> CheckpointRequests::Verified(
    const std::string& job_id, const std::string& folder,
    absl::StatusOr<v1::VerifyCheckpointReply> found) const {
  MUSTER_ASSIGN_OR_RETURN(const Job* job, Find(job_id));
  for (const v1::CheckpointRecord& checkpoint : job->record.checkpoints()) {
    if (checkpoint.uri() == folder) return found;
  }
  return absl::AbortedError(absl::StrCat("the checkpoint ", folder,
                                         " was removed while it was read; verify a later one"));
}

void CheckpointRequests::Delete(const v1::DeleteCheckpointRequest& request,
                                Call<v1::DeleteCheckpointReply> call) {
  absl::StatusOr<std::vector<v1::CheckpointRecord>> forgotten = Forget(request);
  if (!forgotten.ok()) return call.done(forgotten.status());
  disk_.Post([this, job_id = request.job_id(), gone = *std::move(forgotten),
              call = std::move(call)] {
    v1::DeleteCheckpointReply reply;
    for (const v1::CheckpointRecord& checkpoint : gone) {
      if (absl::Status removed = archive_.RemoveCheckpoint(checkpoint.uri()); !removed.ok()) {
        return call.done(absl::Status(
            removed.code(), absl::StrCat("job ", job_id, " has no checkpoint ", checkpoint.uri(),
                                         " any more, but its files stay until the job is deleted: ",
                                         removed.message())));
      }
      reply.add_clocks(checkpoint.clock());
    }
    call.done(std::move(reply));
  });
}

absl::StatusOr<std::vector<v1::CheckpointRecord>> CheckpointRequests::Forget(
    const v1::DeleteCheckpointRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(Job * job, Find(request.job_id()));
  const std::vector<uint64_t> deltas = DeltasOn(request.clock(), job->record);
  if (!deltas.empty() && !request.with_deltas()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoints of job ", job->id(), " at ", absl::StrJoin(deltas, ", "),
                     " go on from that at ", request.clock(),
                     "; delete them with it (--with-deltas), or first"));
  }
  JobChange change{.record = job->record};
  auto& checkpoints = *change.record.mutable_checkpoints();
  std::vector<v1::CheckpointRecord> gone;
  for (int i = checkpoints.size() - 1; i >= 0; --i) {
    const uint64_t clock = checkpoints[i].clock();
    if (clock != request.clock() &&
        std::find(deltas.begin(), deltas.end(), clock) == deltas.end()) {
      continue;
    }
    MUSTER_RETURN_IF_ERROR(lifecycle_.CheckUnneeded(*job, checkpoints[i].uri()));
    gone.push_back(checkpoints[i]);
    change.events.push_back(absl::StrCat("checkpoint at clock ", clock, " deleted"));
    checkpoints.erase(checkpoints.begin() + i);
  }
  // Already gone, as was asked for.
  if (gone.empty()) return gone;
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(*job, std::move(change)));
  return gone;
}

}  // namespace muster
