#include "worker/runtime/training/background_commit.h"

#include <stop_token>
#include <utility>

#include "proto/task_service.pb.h"

namespace muster {

BackgroundCommit::BackgroundCommit(CoordinatorClient& coordinator,
                                   const v1::CommitCheckpointRequest& request)
    : thread_([this, &coordinator, request](std::stop_token stop) {
        absl::Status answer = coordinator.CommitCheckpoint(request, std::move(stop));
        absl::MutexLock lock(&mutex_);
        answer_ = std::move(answer);
      }) {}

absl::optional<absl::Status> BackgroundCommit::Poll() const {
  absl::MutexLock lock(&mutex_);
  return answer_;
}

absl::Status BackgroundCommit::Await() const {
  absl::MutexLock lock(&mutex_);
  const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return answer_.has_value(); };
  mutex_.Await(absl::Condition(&there));
  return *answer_;
}

}  // namespace muster
