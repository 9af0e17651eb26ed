#include "common/base/clock.h"

#include <ctime>

#include "absl/time/clock.h"

namespace muster {

absl::Duration RealClock::Monotonic() const {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

absl::Time RealClock::Wall() const { return absl::Now(); }

absl::Duration FakeClock::Monotonic() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

absl::Time FakeClock::Wall() const { return absl::UnixEpoch() + Monotonic(); }

void FakeClock::Advance(absl::Duration step) {
  absl::MutexLock lock(&mutex_);
  now_ += step;
}

}  // namespace muster
