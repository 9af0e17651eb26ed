#ifndef MUSTER_WORKER_STRATEGY_BLOCKED_TIME_H_
#define MUSTER_WORKER_STRATEGY_BLOCKED_TIME_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/work.h"
#include "common/trace/trace_scope.h"

namespace muster {

// Adds the time that it lives to a count of seconds, and records a wait. Both must outlive it.
class BlockedTime {
 public:
  BlockedTime(const Clock& clock, double& seconds)
      : clock_(clock), seconds_(seconds), since_(clock.Monotonic()) {}
  ~BlockedTime() { seconds_ += absl::ToDoubleSeconds(clock_.Monotonic() - since_); }

  BlockedTime(const BlockedTime&) = delete;
  BlockedTime& operator=(const BlockedTime&) = delete;

 private:
  const Clock& clock_;
  double& seconds_;
  const absl::Duration since_;
  const TraceScope trace_{ActionKind::kWait};
};

// A function that blocks until the work has ended, and returns its status. It may measure the time.
using WaitForWork = std::function<absl::Status(Work& work)>;

inline absl::Status WaitForever(Work& work) { return work.Wait(absl::InfiniteDuration()); }

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_BLOCKED_TIME_H_
