#ifndef MUSTER_TESTS_EQUIVALENCE_RUN_CHECKPOINTS_H_
#define MUSTER_TESTS_EQUIVALENCE_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/synchronization/mutex.h"
#include "common/checkpoint/local_storage.h"
#include "common/files/temp_folder.h"
#include "proto/task_service.pb.h"

namespace muster {

// Where runs of a job keep checkpoints, and go on from those of another run. Thread-safe.
class RunCheckpoints {
 public:
  CheckpointStorage& storage() { return storage_; }
  std::string root() const { return folder_.path(); }

  // Completes what slot 0 of a run reported, as the coordinator does.
  void Commit(const std::string& job_id, uint64_t generation,
              const v1::CommitCheckpointRequest& request);

  // The checkpoint's folder. Fails the test if there is none at the clock.
  std::string At(uint64_t clock) const;

 private:
  const TempFolder folder_;
  LocalStorage storage_;
  mutable absl::Mutex mutex_;
  std::map<uint64_t, std::string> folders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_RUN_CHECKPOINTS_H_
