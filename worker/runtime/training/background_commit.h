#ifndef MUSTER_WORKER_RUNTIME_TRAINING_BACKGROUND_COMMIT_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_BACKGROUND_COMMIT_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

// One CommitCheckpoint call on its own thread. The call goes on until the coordinator answers,
// which may be away for a while, or until this object is destroyed. Used by one thread.
class BackgroundCommit {
 public:
  // Starts the call. `coordinator` outlives this object.
  BackgroundCommit(CoordinatorClient& coordinator, const v1::CommitCheckpointRequest& request);
  // Ends a call that is still under way; the coordinator may or may not have carried it out.
  ~BackgroundCommit() = default;
  BackgroundCommit(const BackgroundCommit&) = delete;
  BackgroundCommit& operator=(const BackgroundCommit&) = delete;

  // Returns the answer if it has come.
  absl::optional<absl::Status> Poll() const;
  // Blocks until the answer has come.
  absl::Status Await() const;

 private:
  mutable absl::Mutex mutex_;
  absl::optional<absl::Status> answer_ ABSL_GUARDED_BY(mutex_);
  // The last member: it is stopped and joined before the others are destroyed.
  std::jthread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_BACKGROUND_COMMIT_H_
