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

// Sleeps for retry loops, so that they can be told to stop and tests need not sleep.
class Waiter {
 public:
  virtual ~Waiter() = default;

  // Blocks for `duration`. Returns false if stopped, before or meanwhile: give up now.
  virtual bool Wait(absl::Duration duration) = 0;

  // Ends all waits, now and later. Idempotent. Any thread.
  virtual void Stop() = 0;
};

// Really sleeps. Thread-safe.
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
  // Each wait is drawn from [(1 - jitter) * w, w], so that peers that failed together do not return
  // together.
  double jitter = 0.5;
};

// The waits between attempts: `first`, then each twice the last one, up to `longest`. Not
// thread-safe.
class Backoff {
 public:
  // `random` decides the jitter; give each caller its own key.
  Backoff(BackoffOptions options, Philox random);

  absl::Duration Next();
  // Makes the next wait the first again, after a success.
  void Reset();

 private:
  const BackoffOptions options_;
  const Philox random_;
  absl::Duration wait_;
  uint64_t draws_ = 0;
};

// Returns whether repeating the call can help: UNAVAILABLE, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED.
// Callers that repeat must know that the call is idempotent.
bool IsRetryable(const absl::Status& status);

struct RetryOptions {
  BackoffOptions backoff;
  // Time after the first attempt within which all others start.
  absl::Duration give_up_after = absl::Seconds(30);
};

// Repeats an idempotent call until it succeeds, fails for good, `give_up_after` has passed or
// `waiter` is stopped. Returns the last attempt's status. Waits at least as long as the answer asks
// for (RetryAfter).
absl::Status Retry(const RetryOptions& options, const Clock& clock, Waiter& waiter, Philox random,
                   const std::function<absl::Status()>& attempt);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_RETRY_H_
