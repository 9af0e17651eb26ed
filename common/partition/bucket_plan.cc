#include "common/partition/bucket_plan.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/partition/model_units.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Elements of one unit that expert ranks divide, or do not. A unit's gradients are all complete at
// `ready_unit`, which is another one only where tensors are tied.
struct UnitStretch {
  uint64_t begin = 0;
  uint64_t end = 0;
  int ready_unit = 0;
  bool experts = false;
};

std::vector<UnitStretch> UnitStretches(const DenseLayout& layout,
                                       absl::Span<const TensorSpec> tensors) {
  const std::vector<int> ready_units = ReadyUnits(tensors);
  std::vector<UnitStretch> stretches;
  uint32_t open_unit = std::numeric_limits<uint32_t>::max();
  for (const DenseLayout::Block& block : layout.blocks()) {
    const bool experts = layout.parts()[block.part].experts;
    if (block.unit != open_unit || experts != stretches.back().experts) {
      open_unit = block.unit;
      stretches.push_back({block.begin, block.begin, ready_units[block.unit], experts});
    }
    stretches.back().end = block.end;
  }
  return stretches;
}

}  // namespace

BucketPlanOptions BucketPlanOptionsOf(const v1::UpdateSpec& update) {
  BucketPlanOptions options;
  if (update.first_bucket_bytes() != 0) options.first_bucket_bytes = update.first_bucket_bytes();
  if (update.bucket_bytes() != 0) options.bucket_bytes = update.bucket_bytes();
  return options;
}

std::vector<GradientBucket> MakeBucketPlan(const DenseLayout& layout,
                                           absl::Span<const TensorSpec> tensors,
                                           const BucketPlanOptions& options) {
  const auto capacity = [&options](size_t bucket) {
    const uint64_t bytes = bucket == 0 ? options.first_bucket_bytes : options.bucket_bytes;
    return std::max<uint64_t>(1, bytes / sizeof(float));
  };
  std::vector<GradientBucket> plan;
  // Whether the last bucket may take more, and how much.
  uint64_t room = 0;
  const std::vector<UnitStretch> stretches = UnitStretches(layout, tensors);
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
    uint64_t end = stretch->end;
    if (end - stretch->begin > room) room = 0;
    if (!plan.empty() && plan.back().experts != stretch->experts) room = 0;
    while (end > stretch->begin) {
      if (room == 0) {
        room = capacity(plan.size());
        plan.push_back({end, end, stretch->ready_unit, stretch->experts});
      }
      GradientBucket& bucket = plan.back();
      const uint64_t taken = std::min(room, end - stretch->begin);
      end -= taken;
      room -= taken;
      bucket.begin = end;
      bucket.ready_unit = std::min(bucket.ready_unit, stretch->ready_unit);
    }
  }
  return plan;
}

uint64_t BucketPlanFingerprint(absl::Span<const GradientBucket> plan) {
  std::string text;
  for (const GradientBucket& bucket : plan) {
    absl::StrAppend(&text, bucket.begin, "-", bucket.end, "@", bucket.ready_unit,
                    bucket.experts ? "e;" : ";");
  }
  return Fingerprint(text);
}

}  // namespace muster
