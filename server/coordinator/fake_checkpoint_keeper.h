#ifndef MUSTER_SERVER_COORDINATOR_FAKE_CHECKPOINT_KEEPER_H_
#define MUSTER_SERVER_COORDINATOR_FAKE_CHECKPOINT_KEEPER_H_

#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/checkpoint_keeper.h"

namespace muster {

// Remembers which checkpoints there are. For tests; not thread-safe.
class FakeCheckpointKeeper final : public CheckpointKeeper {
 public:
  const std::string& root() const override { return root_; }

  absl::StatusOr<std::string> Complete(const v1::CommitCheckpointRequest& request,
                                       absl::Time) override {
    if (!next_error.ok()) return std::exchange(next_error, absl::OkStatus());
    const std::string folder =
        absl::StrCat(root_, "/", request.task().job_id(), "/", request.clock());
    folders.insert(folder);
    return folder;
  }

  absl::Status RemoveCheckpoint(absl::string_view folder) override {
    folders.erase(std::string(folder));
    return absl::OkStatus();
  }

  absl::Status RemoveJob(absl::string_view job_id) override {
    if (!next_error.ok()) return std::exchange(next_error, absl::OkStatus());
    std::erase_if(folders, [&](const std::string& folder) {
      return absl::StartsWith(folder, absl::StrCat(root_, "/", job_id, "/"));
    });
    return absl::OkStatus();
  }

  absl::Status Export(absl::string_view folder,
                      absl::FunctionRef<absl::Status(absl::string_view)> sink) const override {
    return sink(absl::StrCat("weights of ", folder));
  }

  std::set<std::string> folders;
  // Of the next call that can fail.
  absl::Status next_error;

 private:
  const std::string root_ = "/checkpoints";
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_FAKE_CHECKPOINT_KEEPER_H_
