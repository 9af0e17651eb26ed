#include "server/shard/partition/apply/closed_rate_factors.h"

#include "proto/partition_state.pb.h"

namespace muster {

void ClosedRateFactors::Close(uint64_t ahead, double factor) {
  if (factor == 1) return;
  if (factors_.size() <= ahead) factors_.resize(ahead + 1, 1);
  factors_[ahead] = factor;
}

void ClosedRateFactors::Complete() {
  if (!factors_.empty()) factors_.pop_front();
}

void ClosedRateFactors::Save(v1::PartitionState& state) const {
  state.mutable_closing_rate_factors()->Assign(factors_.begin(), factors_.end());
}

void ClosedRateFactors::Restore(const v1::PartitionState& state) {
  factors_.assign(state.closing_rate_factors().begin(), state.closing_rate_factors().end());
}

}  // namespace muster
