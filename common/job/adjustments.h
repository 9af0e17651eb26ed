#ifndef MUSTER_COMMON_JOB_ADJUSTMENTS_H_
#define MUSTER_COMMON_JOB_ADJUSTMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "proto/adjustment.pb.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Knows what was decided for a job while it ran (Adjustment), for those who ask what holds at a
// clock.
class Adjustments {
 public:
  // Nothing was decided.
  Adjustments() = default;
  // `decided` is in order of clocks.
  explicit Adjustments(const google::protobuf::RepeatedPtrField<v1::Adjustment>& decided);

  // Returns what holds for the step at `clock`: the last decision at that clock or before. Without
  // one, the rate's factor is 1 and all else is as specified.
  v1::Adjustment At(uint64_t clock) const;
  // Returns the factor of the scheduled learning rate of the step at `clock`.
  double RateFactor(uint64_t clock) const { return At(clock).rate_factor(); }

  absl::Span<const v1::Adjustment> all() const { return decided_; }

 private:
  std::vector<v1::Adjustment> decided_;
};

// Returns whether something may be decided at a clock of the job, after `evaluated` at the same
// clock or not. The job's tasks ask the coordinator there, all of them (TaskService.Adjust).
enum class Evaluated { kNo, kYes };
bool MayAdjust(const v1::JobSpec& spec, uint64_t clock, Evaluated evaluated);

// Returns whether the batch may grow at a clock of the job (AdaptiveBatchSpec).
bool MayGrowBatch(const v1::JobSpec& spec, uint64_t clock);

// Returns whether data ranks may get other shares at a clock of the job (BalanceSpec).
bool MayBalance(const v1::JobSpec& spec, uint64_t clock);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_ADJUSTMENTS_H_
