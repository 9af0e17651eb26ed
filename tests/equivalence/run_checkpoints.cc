#include "tests/equivalence/run_checkpoints.h"

#include "common/checkpoint/manifest.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"

namespace muster {

void RunCheckpoints::Commit(const std::string& job_id, uint64_t generation,
                            const v1::CommitCheckpointRequest& request) {
  v1::CheckpointManifest manifest;
  manifest.set_job_id(job_id);
  manifest.set_generation(generation);
  manifest.set_clock(request.clock());
  EXPECT_TRUE(manifest.mutable_schema()->ParseFromString(request.schema()));
  manifest.set_rank_files(request.rank_files());
  for (const v1::CutFile& file : request.files()) {
    v1::CheckpointFile* stored = manifest.add_files();
    stored->set_partition(file.partition());
    stored->set_path(file.path());
    stored->set_bytes(file.bytes());
    stored->set_checksum(file.checksum());
  }
  const std::string folder = CheckpointFolder(root(), job_id, request.clock());
  // A later run takes the same checkpoints again.
  EXPECT_EQ(DeleteManifest(storage_, folder), absl::OkStatus());
  EXPECT_EQ(WriteManifest(storage_, folder, manifest), absl::OkStatus());
  absl::MutexLock lock(&mutex_);
  folders_[request.clock()] = folder;
}

std::string RunCheckpoints::At(uint64_t clock) const {
  absl::MutexLock lock(&mutex_);
  const auto folder = folders_.find(clock);
  EXPECT_NE(folder, folders_.end()) << "no checkpoint at clock " << clock;
  return folder == folders_.end() ? "" : folder->second;
}

}  // namespace muster
