#ifndef MUSTER_SERVER_SHARD_PARTITION_APPLY_CLOSED_RATE_FACTORS_H_
#define MUSTER_SERVER_SHARD_PARTITION_APPLY_CLOSED_RATE_FACTORS_H_

#include <cstdint>
#include <deque>

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// Keeps the factors of the scheduled learning rate at the clocks that slots have closed under BSP
// and whose update has not run. Each close brings the factor, which all slots know alike; so a
// replay of the log makes the same steps. Not thread-safe.
class ClosedRateFactors {
 public:
  // Takes a slot's word on the clock that is `ahead` clocks after the next one to complete.
  void Close(uint64_t ahead, double factor);

  // Returns the factor of the next clock to complete. REQUIRES: all slots have closed it.
  double next() const { return factors_.empty() ? 1 : factors_.front(); }
  // Notes that the clock completes.
  void Complete();

  void Save(v1::PartitionState& state) const;
  void Restore(const v1::PartitionState& state);

 private:
  // From the next clock to complete on; those that are missing are 1.
  std::deque<double> factors_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_APPLY_CLOSED_RATE_FACTORS_H_
