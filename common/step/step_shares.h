#ifndef MUSTER_COMMON_STEP_STEP_SHARES_H_
#define MUSTER_COMMON_STEP_STEP_SHARES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"

namespace muster {

namespace v1 {
class Adjustment;
class JobSpec;
}  // namespace v1

// Says which parts of each step's batch the data ranks take.
class StepShares {
 public:
  // Gives data ranks these parts, one for each, from the clock on; empty: equal ones.
  void Set(int64_t clock, std::vector<uint32_t> parts);

  // Returns the parts of so many data ranks at a clock. Empty: equal ones, as for another number of
  // data ranks than the parts are for. Valid until the next Set.
  absl::Span<const uint32_t> At(int64_t clock, int64_t data_ranks) const;

 private:
  std::map<int64_t, std::vector<uint32_t>> parts_;
};

// Returns the shares of a job, as specified (JobSpec.share_changes) or decided. `adjustments` is in
// order of clocks.
StepShares SharesOf(const v1::JobSpec& spec, absl::Span<const v1::Adjustment> adjustments);

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_STEP_SHARES_H_
