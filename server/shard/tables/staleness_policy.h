#ifndef MUSTER_SERVER_SHARD_TABLES_STALENESS_POLICY_H_
#define MUSTER_SERVER_SHARD_TABLES_STALENESS_POLICY_H_

#include <cstdint>
#include <limits>

namespace muster {

// The bound on how far the fastest slot is ahead of the slowest: 0 (BSP), s (SSP) or none (ASP).
class StalenessPolicy {
 public:
  static StalenessPolicy Bounded(uint64_t clocks) { return StalenessPolicy(clocks); }
  static StalenessPolicy Unlimited() { return StalenessPolicy(kUnlimited); }

  // Returns whether this is BSP: gradients are summed, and the optimizer runs once per clock.
  bool synchronous() const { return bound_ == 0; }
  uint64_t bound() const { return bound_; }

  // Returns the number of clocks that the slowest slot must have closed before a step at `clock`
  // may read or change parameters.
  uint64_t Required(uint64_t clock) const { return clock > bound_ ? clock - bound_ : 0; }

 private:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  explicit StalenessPolicy(uint64_t bound) : bound_(bound) {}

  uint64_t bound_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_STALENESS_POLICY_H_
