#ifndef MUSTER_COMMON_RPC_RETRY_H_
#define MUSTER_COMMON_RPC_RETRY_H_

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/philox.h"

namespace muster {

// Where retry loops sleep, so that they can be told to stop and tests need not sleep at all.
class Waiter {
 public:
  virtual ~Waiter() = default;

  // Blocks for `duration`. False: stopped (or stopped while waiting), give up now.
  virtual bool Wait(absl::Duration duration) = 0;

  // Ends all waits, now and later. Idempotent, from any thread.
  virtual void Stop() = 0;
};

// Sleeps really. Thread-safe.
class RealWaiter final : public Waiter {
 public:
  bool Wait(absl::Duration duration) override;
  void Stop() override;

 private:
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

struct BackoffOptions {
  absl::Duration first = absl::Milliseconds(50);
  absl::Duration longest = absl::Seconds(2);
  double growth = 2;
  // Each wait is drawn from [(1 - jitter) * w, w], so that peers that failed together do not return
  // together.
  double jitter = 0.5;
};

// The waits between attempts: `first`, then growing to `longest`. Not thread-safe.
class Backoff {
 public:
  // `random` decides the jitter; give each caller its own key.
  Backoff(BackoffOptions options, Philox random);

  absl::Duration Next();
  // After a success: the next wait is the first again.
  void Reset();

 private:
  const BackoffOptions options_;
  const Philox random_;
  absl::Duration wait_;
  uint64_t draws_ = 0;
};

// Whether repeating the call can help: UNAVAILABLE, RESOURCE_EXHAUSTED and DEADLINE_EXCEEDED.
// Callers that repeat must know that the call is idempotent.
bool IsRetryable(const absl::Status& status);

struct RetryOptions {
  BackoffOptions backoff;
  // No attempt starts later than this after the first.
  absl::Duration give_up_after = absl::Seconds(30);
};

// Repeats an idempotent call until it succeeds, fails for good, `give_up_after` passed or `waiter`
// was stopped. Returns the last attempt's status. A wait that the answer asked for (RetryAfter) is
// kept to.
absl::Status Retry(const RetryOptions& options, const Clock& clock, Waiter& waiter, Philox random,
                   const std::function<absl::Status()>& attempt);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_RETRY_H_
