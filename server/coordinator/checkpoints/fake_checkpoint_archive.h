#ifndef MUSTER_SERVER_COORDINATOR_CHECKPOINTS_FAKE_CHECKPOINT_ARCHIVE_H_
#define MUSTER_SERVER_COORDINATOR_CHECKPOINTS_FAKE_CHECKPOINT_ARCHIVE_H_

#include <atomic>
#include <map>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/memory_storage.h"
#include "proto/job_service.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"

namespace muster {

// A CheckpointArchive that only remembers names, except those of shipped folders. For tests; not
// thread-safe.
class FakeCheckpointArchive final : public CheckpointArchive {
 public:
  const std::string& root() const override { return root_; }
  ShippedArchives& shipped() override { return shipped_; }

  absl::StatusOr<CompletedCheckpoint> Complete(const v1::CommitCheckpointRequest& request,
                                               absl::Time) override {
    if (out_of_memory) throw std::bad_alloc();
    if (!next_error.ok()) return std::exchange(next_error, absl::OkStatus());
    const std::string folder =
        absl::StrCat(root_, "/", request.task().job_id(), "/", request.clock());
    folders.insert(folder);
    completed_requests.push_back(request);
    CompletedCheckpoint completed{.folder = folder, .base_clock = std::nullopt};
    const auto base = bases.find(request.clock());
    if (base != bases.end()) completed.base_clock = base->second;
    return completed;
  }

  absl::Status RemoveCheckpoint(absl::string_view folder) override {
    folders.erase(std::string(folder));
    return absl::OkStatus();
  }

  absl::Status RemoveLeftovers(absl::string_view job_id, const LeftoverLimits& limits) override {
    leftovers[std::string(job_id)].push_back(limits);
    return absl::OkStatus();
  }

  absl::Status RemoveFiles(absl::string_view job_id, uint64_t clock,
                           const std::vector<std::string>& files) override {
    for (const std::string& file : files) {
      removed_files.push_back(absl::StrCat(root_, "/", job_id, "/", clock, "/", file));
    }
    return absl::OkStatus();
  }

  absl::Status RemoveJob(absl::string_view job_id) override {
    if (!next_error.ok()) return std::exchange(next_error, absl::OkStatus());
    std::erase_if(folders, [&](const std::string& folder) {
      return absl::StartsWith(folder, absl::StrCat(root_, "/", job_id, "/"));
    });
    return absl::OkStatus();
  }

  absl::StatusOr<v1::CheckpointStatus> Describe(absl::string_view folder) const override {
    if (out_of_memory) throw std::bad_alloc();
    if (!folders.contains(std::string(folder))) return absl::NotFoundError("no such folder");
    v1::CheckpointStatus status;
    status.set_files(2);
    status.set_bytes(100);
    return status;
  }

  absl::StatusOr<std::string> DataPreparation(absl::string_view folder) const override {
    const auto found = preparations.find(std::string(folder));
    if (found == preparations.end()) return absl::NotFoundError("no such folder");
    return found->second;
  }

  absl::StatusOr<v1::VerifyCheckpointReply> Verify(absl::string_view folder) const override {
    if (out_of_memory) throw std::bad_alloc();
    if (!folders.contains(std::string(folder))) return absl::NotFoundError("no such folder");
    v1::VerifyCheckpointReply reply;
    reply.set_files(3);
    if (damaged.contains(std::string(folder))) {
      reply.add_damage(absl::StrCat(folder, "/p0 is damaged"));
    }
    return reply;
  }

  absl::Status Export(absl::string_view folder, ExportedValues values,
                      absl::FunctionRef<absl::Status(absl::string_view)> sink) const override {
    if (out_of_memory) throw std::bad_alloc();
    return sink(
        absl::StrCat(values == ExportedValues::kAverages ? "averages" : "weights", " of ", folder));
  }

  std::set<std::string> folders;
  std::vector<v1::CommitCheckpointRequest> completed_requests;
  // Base clocks of the checkpoints that are deltas, by clock.
  std::map<uint64_t, uint64_t> bases;
  // Limits of each RemoveLeftovers call, by job.
  std::map<std::string, std::vector<LeftoverLimits>> leftovers;
  std::vector<std::string> removed_files;
  // Answers of DataPreparation, by folder.
  std::map<std::string, std::string> preparations;
  // Folders that Verify reports as damaged.
  std::set<std::string> damaged;
  // While set, completing or reading a checkpoint runs out of memory. Set from any thread.
  std::atomic<bool> out_of_memory{false};
  // Error of the next Complete or RemoveJob.
  absl::Status next_error;

 private:
  const std::string root_ = "/checkpoints";
  MemoryStorage storage_;
  ShippedArchives shipped_{storage_, root_};
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CHECKPOINTS_FAKE_CHECKPOINT_ARCHIVE_H_
