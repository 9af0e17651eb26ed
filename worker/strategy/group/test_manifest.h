#ifndef MUSTER_WORKER_STRATEGY_GROUP_TEST_MANIFEST_H_
#define MUSTER_WORKER_STRATEGY_GROUP_TEST_MANIFEST_H_

#include <cstdint>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"
#include "worker/strategy/training_state.h"

namespace muster {

// Returns the manifest of a cut of job "job", as the coordinator writes it.
inline v1::CheckpointManifest TestManifest(const v1::TablesSchema& schema, uint64_t clock,
                                           const std::vector<PartitionFile>& files) {
  v1::CheckpointManifest manifest;
  manifest.set_job_id("job");
  manifest.set_clock(clock);
  *manifest.mutable_schema() = schema;
  for (const PartitionFile& written : files) {
    v1::CheckpointFile* const file = manifest.add_files();
    file->set_partition(written.partition);
    file->set_path(written.path);
    file->set_bytes(written.bytes);
    file->set_checksum(written.checksum);
  }
  return manifest;
}

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_TEST_MANIFEST_H_
