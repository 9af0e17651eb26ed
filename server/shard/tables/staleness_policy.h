#ifndef MUSTER_SERVER_SHARD_TABLES_STALENESS_POLICY_H_
#define MUSTER_SERVER_SHARD_TABLES_STALENESS_POLICY_H_

#include <cstdint>
#include <limits>

namespace muster {

// How far the fastest slot may be ahead of the slowest: BSP, SSP and ASP are one bound (0, s,
// unlimited). A value.
class StalenessPolicy {
 public:
  static StalenessPolicy Bounded(uint64_t clocks) { return StalenessPolicy(clocks); }
  static StalenessPolicy Unlimited() { return StalenessPolicy(kUnlimited); }

  // BSP: gradients are summed, and the optimizer runs once per clock.
  bool synchronous() const { return bound_ == 0; }
  bool unlimited() const { return bound_ == kUnlimited; }
  uint64_t bound() const { return bound_; }

  // Clocks that the slowest slot must have closed before a step at `clock` may read or change
  // parameters.
  uint64_t Required(uint64_t clock) const { return clock > bound_ ? clock - bound_ : 0; }

 private:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  explicit StalenessPolicy(uint64_t bound) : bound_(bound) {}

  uint64_t bound_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_STALENESS_POLICY_H_
