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
  // Most bytes of a short message.
  static constexpr int64_t kShortBytes = 64 << 10;

  explicit MessageBudget(int64_t limit) : limit_(limit) {}

  int64_t limit() const { return limit_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t left() const { return limit_ - used(); }

  // Takes room for `bytes` on a connection that holds `held` already. Returns whether it did.
  bool TryTake(int64_t bytes, int64_t held);
  // Takes room that is in use already, over the limit or not.
  void Take(int64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  // Gives room back, and lets those who wait for some try again, on this thread. REQUIRES: no lock
  // is held that they take.
  void Return(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `retry` once after the next Return. Whoever has found no room calls this, and then tries
  // again, since room may have come in between.
  void Await(std::function<void()> retry) ABSL_LOCKS_EXCLUDED(mutex_);
  bool has_waiters() const { return waiters_count_.load(std::memory_order_relaxed) > 0; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> waiters_count_{0};
  absl::Mutex mutex_;
  // Ordered by arrival.
  std::vector<std::function<void()>> waiters_ ABSL_GUARDED_BY(mutex_);
};

// One message's share of a budget. It is given back with the object at the latest, since a call
// whose caller is gone is dropped without an answer. Not thread-safe.
class MessageShare {
 public:
  MessageShare() = default;
  // REQUIRES: as MessageBudget::Return.
  ~MessageShare() { GiveBack(); }
  MessageShare(const MessageShare&) = delete;
  MessageShare& operator=(const MessageShare&) = delete;

  // Notes `bytes` that were taken of `budget`, to be given back. REQUIRES: none are noted yet.
  void Keep(std::shared_ptr<MessageBudget> budget, int64_t bytes) {
    budget_ = std::move(budget);
    bytes_ = bytes;
  }
  // Gives back what is noted, unless that was done. REQUIRES: as MessageBudget::Return.
  void GiveBack() {
    if (const auto budget = std::exchange(budget_, nullptr)) budget->Return(bytes_);
  }

 private:
  std::shared_ptr<MessageBudget> budget_;
  int64_t bytes_ = 0;
};

// A process's budgets for all messages that are under way.
struct MessageBudgets {
  explicit MessageBudgets(int64_t limit) : passing(limit / 2), parked(limit - limit / 2) {}

  // Messages that arrive, pushes that are being applied, answers that wait to be sent. All of these
  // go by themselves, so a message that finds no room can wait for some.
  MessageBudget passing;
  // Pulls and other operations that may wait for pushes of others. Pushes must not wait for their
  // room in turn, so an operation that finds no room is refused.
  MessageBudget parked;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_MESSAGE_BUDGET_H_
