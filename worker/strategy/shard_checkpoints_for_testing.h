#ifndef MUSTER_WORKER_STRATEGY_SHARD_CHECKPOINTS_FOR_TESTING_H_
#define MUSTER_WORKER_STRATEGY_SHARD_CHECKPOINTS_FOR_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// Checkpoints for tests of ShardState.

// Completes a checkpoint of these files, and opens it.
inline std::unique_ptr<CheckpointReader> OpenFiles(const v1::TablesSchema& schema, uint64_t clock,
                                                   const std::vector<PartitionFileInfo>& files,
                                                   CheckpointStorage& storage) {
  v1::CheckpointManifest manifest;
  manifest.set_job_id("job");
  manifest.set_generation(3);
  manifest.set_clock(clock);
  *manifest.mutable_schema() = schema;
  for (const PartitionFileInfo& info : files) {
    const int number = manifest.files_size();
    v1::CheckpointFile* stored = manifest.add_files();
    stored->set_partition(number);
    stored->set_path(info.path);
    stored->set_bytes(info.bytes);
    stored->set_checksum(info.checksum);
  }
  const std::string folder = CheckpointFolder("/root", "job", clock);
  EXPECT_EQ(DeleteManifest(storage, folder), absl::OkStatus());
  EXPECT_EQ(WriteManifest(storage, folder, manifest), absl::OkStatus());
  return CheckpointReader::Open(storage, folder).value();
}

// Returns a file of the checkpoint, with the partition of its number.
inline ShardFile FileOf(uint32_t number) {
  ShardFile file;
  file.checkpoint_root = "/root";
  file.job_id = "job";
  file.generation = 3;
  file.number = number;
  file.partitions = {number};
  return file;
}

// Writes a complete checkpoint of a single shard, a file for each partition.
inline std::unique_ptr<CheckpointReader> Checkpoint(const ShardState& state,
                                                    const v1::TablesSchema& schema,
                                                    CheckpointStorage& storage) {
  std::vector<PartitionFileInfo> files;
  for (uint32_t p = 0; p < schema.partitions(); ++p) {
    ShardFile file = FileOf(p);
    const absl::Span<const uint32_t> blocks = state.layout().partition_blocks(p);
    file.blocks.assign(blocks.begin(), blocks.end());
    files.push_back(state.Save(file, storage).value());
  }
  return OpenFiles(schema, state.clock(), files, storage);
}

// Writes a checkpoint of several shards, a file for each. REQUIRES: as many partitions.
inline std::unique_ptr<CheckpointReader> Checkpoint(
    const std::vector<std::unique_ptr<ShardState>>& shards, const v1::TablesSchema& schema,
    CheckpointStorage& storage) {
  std::vector<PartitionFileInfo> files;
  for (uint32_t s = 0; s < shards.size(); ++s) {
    ShardFile file = FileOf(s);
    for (uint32_t i = 0; i < shards[s]->owned_blocks().size(); ++i) file.blocks.push_back(i);
    files.push_back(shards[s]->Save(file, storage).value());
  }
  return OpenFiles(schema, shards[0]->clock(), files, storage);
}

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SHARD_CHECKPOINTS_FOR_TESTING_H_
