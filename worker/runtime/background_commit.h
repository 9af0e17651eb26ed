#ifndef MUSTER_WORKER_RUNTIME_BACKGROUND_COMMIT_H_
#define MUSTER_WORKER_RUNTIME_BACKGROUND_COMMIT_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "worker/runtime/coordinator_client.h"

namespace muster {

// One CommitCheckpoint that takes as long as the coordinator does, be it away, on a thread of its
// own. Used by one thread.
class BackgroundCommit {
 public:
  // Starts. `coordinator` outlives it.
  BackgroundCommit(CoordinatorClient& coordinator, const v1::CommitCheckpointRequest& request);
  // Waits for the answer.
  ~BackgroundCommit();
  BackgroundCommit(const BackgroundCommit&) = delete;
  BackgroundCommit& operator=(const BackgroundCommit&) = delete;

  // The answer, if it has come.
  absl::optional<absl::Status> Poll() const;
  // Waits for it.
  absl::Status Await() const;

 private:
  mutable absl::Mutex mutex_;
  absl::optional<absl::Status> answer_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_BACKGROUND_COMMIT_H_
