#ifndef MUSTER_SERVER_SHARD_RESOURCES_MEMORY_BUDGET_H_
#define MUSTER_SERVER_SHARD_RESOURCES_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace muster {

// One bound on the memory of many holders. Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

  // Takes `bytes` if the limit allows. Returns whether it does.
  bool TryTake(uint64_t bytes) {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (used > limit_ || bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  // Takes bytes that are in use already, over the limit or not.
  void Take(uint64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void Return(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

// One holder's share of a budget, returned by the destructor. Not thread-safe.
class MemoryShare {
 public:
  // `budget` must outlive the share.
  explicit MemoryShare(MemoryBudget& budget) : budget_(budget) {}
  ~MemoryShare() { budget_.Return(bytes_); }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  uint64_t bytes() const { return bytes_; }

  // Grows the share by `bytes` if the budget allows. Returns whether it does.
  bool TryGrow(uint64_t bytes) {
    if (!budget_.TryTake(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  // Sets the share to `bytes` that are in use already, over the limit or not.
  void Set(uint64_t bytes) {
    budget_.Take(bytes);
    budget_.Return(bytes_);
    bytes_ = bytes;
  }

 private:
  MemoryBudget& budget_;
  uint64_t bytes_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_MEMORY_BUDGET_H_
