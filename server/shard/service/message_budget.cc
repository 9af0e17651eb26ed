#include "server/shard/service/message_budget.h"

#include <utility>

namespace muster {

bool MessageBudget::TryTake(int64_t bytes, int64_t held) {
  int64_t used = used_.load(std::memory_order_seq_cst);
  do {
    const int64_t left = limit_ - used - bytes;
    const bool fits = held == 0 ? left >= 0 : left >= held + bytes;
    if (!fits && bytes > kShortBytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void MessageBudget::Return(int64_t bytes) {
  if (bytes == 0) return;
  // In one order with the numbers of those who wait: either they see the room, or this sees them.
  used_.fetch_sub(bytes, std::memory_order_seq_cst);
  if (waiters_count_.load(std::memory_order_seq_cst) == 0) return;
  std::vector<std::function<void()>> waiters;
  {
    absl::MutexLock lock(&mutex_);
    waiters.swap(waiters_);
    waiters_count_.store(0, std::memory_order_seq_cst);
  }
  for (const std::function<void()>& retry : waiters) retry();
}

void MessageBudget::Await(std::function<void()> retry) {
  absl::MutexLock lock(&mutex_);
  waiters_.push_back(std::move(retry));
  waiters_count_.fetch_add(1, std::memory_order_seq_cst);
}

}  // namespace muster
