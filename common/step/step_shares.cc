#include "common/step/step_shares.h"

#include <iterator>
#include <utility>

#include "proto/adjustment.pb.h"
#include "proto/job.pb.h"

namespace muster {

void StepShares::Set(int64_t clock, std::vector<uint32_t> parts) {
  parts_[clock] = std::move(parts);
}

absl::Span<const uint32_t> StepShares::At(int64_t clock, int64_t data_ranks) const {
  const auto later = parts_.upper_bound(clock);
  if (later == parts_.begin()) return {};
  const std::vector<uint32_t>& parts = std::prev(later)->second;
  if (static_cast<int64_t>(parts.size()) != data_ranks) return {};
  return parts;
}

StepShares SharesOf(const v1::JobSpec& spec, absl::Span<const v1::Adjustment> adjustments) {
  StepShares shares;
  if (!spec.share_changes().empty()) {
    for (const v1::ShareChange& change : spec.share_changes()) {
      shares.Set(static_cast<int64_t>(change.step()),
                 {change.shares().begin(), change.shares().end()});
    }
    return shares;
  }
  for (const v1::Adjustment& each : adjustments) {
    shares.Set(static_cast<int64_t>(each.clock()), {each.shares().begin(), each.shares().end()});
  }
  return shares;
}

}  // namespace muster
