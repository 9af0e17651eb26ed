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

}  // namespace muster
