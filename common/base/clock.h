#ifndef MUSTER_COMMON_BASE_CLOCK_H_
#define MUSTER_COMMON_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace muster {

// Source of time, which tests replace. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Returns monotonic time, which never goes back and whose zero means nothing. For leases,
  // deadlines and rates.
  virtual absl::Duration Monotonic() const = 0;

  // Returns wall time, for records that people read. May jump.
  virtual absl::Time Wall() const = 0;
};

// The machine's clocks.
class RealClock final : public Clock {
 public:
  absl::Duration Monotonic() const override;
  absl::Time Wall() const override;
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_CLOCK_H_
