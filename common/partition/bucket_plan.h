#ifndef MUSTER_COMMON_PARTITION_BUCKET_PLAN_H_
#define MUSTER_COMMON_PARTITION_BUCKET_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"

namespace muster {

namespace v1 {
class UpdateSpec;
}  // namespace v1

// The elements that one all-reduce of gradients covers.
struct GradientBucket {
  // Elements [begin, end) of the flat space; never empty.
  uint64_t begin = 0;
  uint64_t end = 0;
  // The bucket is complete once backward has left this unit and all units after it.
  int ready_unit = 0;
  // Expert ranks divide its tensors: it is summed over the ranks that have the same experts.
  bool experts = false;

  uint64_t elements() const { return end - begin; }
};

struct BucketPlanOptions {
  // Bounds on the f32 bytes of the first bucket, small so that communication begins early, and of
  // those after it, large so that a call's fixed cost does not count. At least one element each.
  uint64_t first_bucket_bytes = 1 << 20;
  uint64_t bucket_bytes = 25 << 20;
};

// Returns a job's options; a field that the job leaves out keeps its default.
BucketPlanOptions BucketPlanOptionsOf(const v1::UpdateSpec& update);

// Cuts the flat gradient into buckets, in the one order in which all ranks reduce them: from the
// last layer unit, whose gradients are complete first, to unit 0. As units lie one after another,
// the buckets are the flat space from its end to its start without a gap.
//
// A bucket takes units whole, as long as the next one fits, except that a unit's parts that expert
// ranks divide are in buckets of their own; a unit that is larger than a bucket is
// cut from its end into full buckets, and units before it may join what is left of it. So a bucket
// that could go never waits for a unit of which it holds a part only. A tensor that others are tied
// to is complete with the first unit that adds to it, which is the last one that backward comes to.
//
// For example, with buckets of 4 bytes, then 16: units of 2, 3 and 2 elements, [0,2) [2,5) [5,7),
// give [6,7) of unit 2, then [2,6), which is ready after unit 1, then [0,2).
//
// A pure function: every rank makes the same.
std::vector<GradientBucket> MakeBucketPlan(const DenseLayout& layout,
                                           absl::Span<const TensorSpec> tensors,
                                           const BucketPlanOptions& options);

// Returns a fingerprint, equal for equal plans. Ranks compare it before they reduce together.
uint64_t BucketPlanFingerprint(absl::Span<const GradientBucket> plan);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_BUCKET_PLAN_H_
