#ifndef MUSTER_WORKER_RUNTIME_TRAINING_BACKGROUND_COMMIT_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_BACKGROUND_COMMIT_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

// One CommitCheckpoint that takes as long as the coordinator does, be it away, on a thread of its
// own; or as long as this lives. Used by one thread.
class BackgroundCommit {
 public:
  // Starts. `coordinator` outlives it.
  BackgroundCommit(CoordinatorClient& coordinator, const v1::CommitCheckpointRequest& request);
  // Ends the call, if it is still under way; whether it was carried out is unknown then.
  ~BackgroundCommit() = default;
  BackgroundCommit(const BackgroundCommit&) = delete;
  BackgroundCommit& operator=(const BackgroundCommit&) = delete;

  // The answer, if it has come.
  absl::optional<absl::Status> Poll() const;
  // Waits for it.
  absl::Status Await() const;

 private:
  mutable absl::Mutex mutex_;
  absl::optional<absl::Status> answer_ ABSL_GUARDED_BY(mutex_);
  // Last: it is stopped and joined before the rest goes.
  std::jthread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_BACKGROUND_COMMIT_H_
