#ifndef MUSTER_COMMON_BASE_FAKE_CLOCK_FOR_TESTING_H_
#define MUSTER_COMMON_BASE_FAKE_CLOCK_FOR_TESTING_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace muster {

// Stands still until it is told to advance. Thread-safe.
class FakeClock final : public Clock {
 public:
  absl::Duration Monotonic() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  absl::Time Wall() const override { return absl::UnixEpoch() + Monotonic(); }

  void Advance(absl::Duration step) {
    absl::MutexLock lock(&mutex_);
    now_ += step;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_FAKE_CLOCK_FOR_TESTING_H_
