#ifndef MUSTER_COMMON_TRANSPORT_DEADLINE_H_
#define MUSTER_COMMON_TRANSPORT_DEADLINE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace muster {

// A reason to end a wait early, such as the failure of the group that waits. Thread-safe.
class Interrupt {
 public:
  virtual ~Interrupt() = default;
  // Returns why there is nothing to wait for any more; OK: go on.
  virtual absl::Status status() const = 0;
};

// The end of a wait, on the machine's monotonic clock, so that setting the time of day neither ends
// a wait nor prolongs it. A value; borrows the interrupt.
class Deadline {
 public:
  // Converts a time of the wall clock, as that is now.
  Deadline(absl::Time wall) : Deadline(After(wall - absl::Now())) {}

  static Deadline After(absl::Duration left, const Interrupt* interrupt = nullptr) {
    return Deadline(Monotonic() + left, interrupt);
  }

  // Returns this deadline or `left` from now, whichever is sooner.
  Deadline Sooner(absl::Duration left) const {
    return Deadline(std::min(end_, Monotonic() + left), interrupt_);
  }

  // Negative once the deadline has passed.
  absl::Duration left() const { return end_ - Monotonic(); }
  bool passed() const { return left() <= absl::ZeroDuration(); }

  // Returns the interrupt's status.
  absl::Status interrupted() const {
    return interrupt_ == nullptr ? absl::OkStatus() : interrupt_->status();
  }
  // Returns the interrupt's error, Unavailable once the deadline has passed, otherwise OK.
  absl::Status status() const {
    if (absl::Status why = interrupted(); !why.ok()) return why;
    return passed() ? absl::UnavailableError("no answer in time") : absl::OkStatus();
  }

  // Returns how long to sleep at most before looking at status() again; at least 1 ms.
  absl::Duration nap() const {
    const absl::Duration longest =
        interrupt_ == nullptr ? absl::Seconds(60) : absl::Milliseconds(20);
    return std::clamp(left(), absl::Milliseconds(1), longest);
  }
  // Returns the same for poll, rounded up.
  int nap_milliseconds() const {
    return static_cast<int>(absl::ToInt64Milliseconds(nap() + absl::Microseconds(999)));
  }

 private:
  Deadline(absl::Duration end, const Interrupt* interrupt) : end_(end), interrupt_(interrupt) {}

  static absl::Duration Monotonic() {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }

  absl::Duration end_;
  const Interrupt* interrupt_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DEADLINE_H_
