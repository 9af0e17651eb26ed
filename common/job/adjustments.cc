#include "common/job/adjustments.h"

#include <algorithm>
#include <iterator>

#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint64_t kDefaultGrowthSteps = 100;
constexpr uint64_t kDefaultBalanceSteps = 20;

// Returns whether something that is due after each `every` steps is due at the clock.
bool IsDue(uint64_t clock, uint64_t every) { return clock > 0 && clock % every == 0; }

}  // namespace

Adjustments::Adjustments(const google::protobuf::RepeatedPtrField<v1::Adjustment>& decided)
    : decided_(decided.begin(), decided.end()) {}

v1::Adjustment Adjustments::At(uint64_t clock) const {
  const auto later = std::upper_bound(
      decided_.begin(), decided_.end(), clock,
      [](uint64_t wanted, const v1::Adjustment& each) { return wanted < each.clock(); });
  if (later != decided_.begin()) return *std::prev(later);
  v1::Adjustment none;
  none.set_rate_factor(1);
  return none;
}

bool MayAdjust(const v1::JobSpec& spec, uint64_t clock, Evaluated evaluated) {
  return (evaluated == Evaluated::kYes && spec.schedule().has_plateau()) ||
         MayGrowBatch(spec, clock) || MayBalance(spec, clock);
}

bool MayGrowBatch(const v1::JobSpec& spec, uint64_t clock) {
  if (!spec.has_adaptive_batch()) return false;
  const uint64_t every = spec.adaptive_batch().every_steps();
  return IsDue(clock, every == 0 ? kDefaultGrowthSteps : every);
}

bool MayBalance(const v1::JobSpec& spec, uint64_t clock) {
  if (!spec.has_balance()) return false;
  const uint64_t every = spec.balance().every_steps();
  return IsDue(clock, every == 0 ? kDefaultBalanceSteps : every);
}

}  // namespace muster
