#include "server/coordinator/checkpoints/moved_root.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

// Returns where the checkpoint of a stored folder ROOT/JOB/CLOCK is now; nullopt: where it was, or
// nowhere.
std::optional<std::string> MovedTo(const std::string& stored, const JobTable& jobs,
                                   const CheckpointArchive& archive) {
  if (stored.empty() || absl::StartsWith(stored, archive.root())) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(stored, '/');
  uint64_t clock = 0;
  if (parts.size() < 3 || !absl::SimpleAtoi(parts.back(), &clock)) return std::nullopt;
  // Any other folder is the user's own, which only looks like a job's.
  const std::string& job_id = parts[parts.size() - 2];
  if (jobs.Find(job_id) == nullptr || archive.Describe(stored).ok()) return std::nullopt;
  std::string now = CheckpointFolder(archive.root(), job_id, clock);
  if (!archive.Describe(now).ok()) return std::nullopt;
  return now;
}

// Returns whether the folder is now another one.
bool Follow(std::string& stored, const JobTable& jobs, const CheckpointArchive& archive) {
  std::optional<std::string> now = MovedTo(stored, jobs, archive);
  if (now.has_value()) stored = *std::move(now);
  return now.has_value();
}

}  // namespace

absl::Status FollowMovedRoot(JobTable& jobs, const CheckpointArchive& archive) {
  for (const auto& [number, job] : jobs.jobs()) {
    JobChange change{.record = job->record};
    bool moved = Follow(*change.record.mutable_restore_uri(), jobs, archive);
    moved |= Follow(*change.record.mutable_initial_uri(), jobs, archive);
    for (v1::CheckpointRecord& checkpoint : *change.record.mutable_checkpoints()) {
      moved |= Follow(*checkpoint.mutable_uri(), jobs, archive);
    }
    if (!moved) continue;
    change.events.push_back(absl::StrCat("its checkpoints are under ", archive.root(),
                                         " now, and no longer where they were written"));
    MUSTER_RETURN_IF_ERROR(jobs.Commit(*job, std::move(change)));
  }
  return absl::OkStatus();
}

}  // namespace muster
