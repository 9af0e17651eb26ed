#include "common/rpc/retry.h"

#include <algorithm>

#include "common/rpc/rpc_status.h"

namespace muster {

bool RealWaiter::Wait(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&stopped_), duration);
}

void RealWaiter::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
}

Backoff::Backoff(BackoffOptions options, Philox random)
    : options_(options), random_(random), wait_(options.first) {}

absl::Duration Backoff::Next() {
  const absl::Duration wait = wait_ * (1 - options_.jitter * random_.Uniform(draws_++));
  wait_ = std::min(wait_ * 2, options_.longest);
  return wait;
}

void Backoff::Reset() { wait_ = options_.first; }

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsDeadlineExceeded(status);
}

absl::Status Retry(const RetryOptions& options, const Clock& clock, Waiter& waiter, Philox random,
                   const std::function<absl::Status()>& attempt) {
  Backoff backoff(options.backoff, random);
  const absl::Duration give_up = clock.Monotonic() + options.give_up_after;
  while (true) {
    absl::Status status = attempt();
    if (!IsRetryable(status)) return status;
    const absl::Duration wait =
        std::max(backoff.Next(), RetryAfter(status).value_or(absl::ZeroDuration()));
    if (clock.Monotonic() + wait > give_up || !waiter.Wait(wait)) return status;
  }
}

}  // namespace muster
