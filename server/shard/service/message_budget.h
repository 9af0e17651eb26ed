#ifndef MUSTER_SERVER_SHARD_SERVICE_MESSAGE_BUDGET_H_
#define MUSTER_SERVER_SHARD_SERVICE_MESSAGE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace muster {

// A bound on the memory of messages of all connections of a process. The bounds of a connection
// (ExchangeLimits) do not bound the process, which anybody may connect to any number of times.
//
// Long messages need room. A connection that holds nothing gets any room that is left; one that
// holds something gets no more than it leaves to others. So n connections that take all they can,
// and give nothing back, leave about 1 / (n + 1) of the limit to those who come later. Short
// messages are counted and never held back.
//
// Costs an atomic operation when a message comes and one when it goes. Thread-safe.
class MessageBudget {
 public:
  // What is not longer is a short message.
  static constexpr int64_t kShortBytes = 64 << 10;

  explicit MessageBudget(int64_t limit) : limit_(limit) {}

  int64_t limit() const { return limit_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t left() const { return limit_ - used(); }

  // Takes room for `bytes` on a connection that holds `held` already; returns whether it did.
  bool TryTake(int64_t bytes, int64_t held);
  // Takes room that is in use already, over the limit or not.
  void Take(int64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  // Gives room back, and lets those who wait for some try again, on this thread. REQUIRES: no lock
  // is held that they take.
  void Return(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // `retry` is called once after the next Return. Whoever has found no room calls this, and then
  // tries again, since room may have come in between.
  void Await(std::function<void()> retry) ABSL_LOCKS_EXCLUDED(mutex_);
  bool has_waiters() const { return waiters_count_.load(std::memory_order_relaxed) > 0; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> waiters_count_{0};
  absl::Mutex mutex_;
  // In the order of their coming.
  std::vector<std::function<void()>> waiters_ ABSL_GUARDED_BY(mutex_);
};

// What one message has taken of a budget, given back when the share goes at the latest: a call
// whose caller is gone is dropped without an answer. Not thread-safe.
class MessageShare {
 public:
  MessageShare() = default;
  // REQUIRES: as MessageBudget::Return.
  ~MessageShare() { GiveBack(); }
  MessageShare(const MessageShare&) = delete;
  MessageShare& operator=(const MessageShare&) = delete;

  // Answers for `bytes` that were taken of `budget`. REQUIRES: it answers for none yet.
  void Keep(std::shared_ptr<MessageBudget> budget, int64_t bytes) {
    budget_ = std::move(budget);
    bytes_ = bytes;
  }
  // Once or not at all: what was given back is given back no more. REQUIRES: as
  // MessageBudget::Return.
  void GiveBack() {
    if (const auto budget = std::exchange(budget_, nullptr)) budget->Return(bytes_);
  }

 private:
  std::shared_ptr<MessageBudget> budget_;
  int64_t bytes_ = 0;
};

// What a process has for all messages that are under way.
struct MessageBudgets {
  explicit MessageBudgets(int64_t limit) : passing(limit / 2), parked(limit - limit / 2) {}

  // Messages that arrive, pushes that are being applied, answers that wait to be sent: all of these
  // go by themselves, so what finds no room can wait for some.
  MessageBudget passing;
  // Pulls and other operations that may wait for pushes of others: pushes must not wait for their
  // room in turn, and what finds none here is refused.
  MessageBudget parked;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_MESSAGE_BUDGET_H_
