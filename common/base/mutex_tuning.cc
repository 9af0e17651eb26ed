#include "common/base/mutex_tuning.h"

#include "absl/synchronization/mutex.h"

namespace muster {

void SkipDeadlockDetection() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace muster
