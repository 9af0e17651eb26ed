#ifndef MUSTER_SERVER_COORDINATOR_CHECKPOINTS_STORAGE_CHECKPOINT_ARCHIVE_H_
#define MUSTER_SERVER_COORDINATOR_CHECKPOINTS_STORAGE_CHECKPOINT_ARCHIVE_H_

#include <string>
#include <vector>

#include "common/checkpoint/storage.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"

namespace muster {

// A CheckpointArchive over a CheckpointStorage, in the layout of common/checkpoint.
class StorageCheckpointArchive final : public CheckpointArchive {
 public:
  // The storage outlives the archive.
  StorageCheckpointArchive(CheckpointStorage& storage, std::string root);

  const std::string& root() const override { return root_; }
  ShippedArchives& shipped() override { return shipped_; }
  absl::StatusOr<CompletedCheckpoint> Complete(const v1::CommitCheckpointRequest& request,
                                               absl::Time created) override;
  absl::Status RemoveCheckpoint(absl::string_view folder) override;
  absl::Status RemoveLeftovers(absl::string_view job_id, const LeftoverLimits& limits) override;
  absl::Status RemoveFiles(absl::string_view job_id, uint64_t clock,
                           const std::vector<std::string>& files) override;
  absl::Status RemoveJob(absl::string_view job_id) override;
  absl::StatusOr<v1::CheckpointStatus> Describe(absl::string_view folder) const override;
  absl::StatusOr<std::string> DataPreparation(absl::string_view folder) const override;
  absl::StatusOr<v1::VerifyCheckpointReply> Verify(absl::string_view folder) const override;
  absl::Status Export(absl::string_view folder, ExportedValues values,
                      absl::FunctionRef<absl::Status(absl::string_view)> sink) const override;

 private:
  CheckpointStorage& storage_;
  const std::string root_;
  ShippedArchives shipped_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CHECKPOINTS_STORAGE_CHECKPOINT_ARCHIVE_H_
