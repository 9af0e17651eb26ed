#include "worker/strategy/group/bucket_plan.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/fingerprint.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Elements of one unit. A unit's gradients are all complete at `ready_unit`, which is another one
// only where tensors are tied.
struct UnitStretch {
  uint64_t begin = 0;
  uint64_t end = 0;
  int ready_unit = 0;
};

// The first unit that adds to each tensor's storage; ties included.
std::vector<uint32_t> FirstUnits(absl::Span<const TensorSpec> tensors) {
  absl::flat_hash_map<absl::string_view, uint32_t> of_ties;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.tied_to.empty()) continue;
    const auto [it, added] = of_ties.emplace(tensor.tied_to, tensor.unit);
    if (!added) it->second = std::min(it->second, tensor.unit);
  }
  std::vector<uint32_t> first;
  for (const TensorSpec& tensor : tensors) {
    const auto ties = of_ties.find(tensor.name);
    first.push_back(ties == of_ties.end() ? tensor.unit : std::min(tensor.unit, ties->second));
  }
  return first;
}

std::vector<UnitStretch> UnitStretches(const DenseLayout& layout,
                                       absl::Span<const TensorSpec> tensors) {
  const std::vector<uint32_t> first_units = FirstUnits(tensors);
  std::vector<UnitStretch> stretches;
  uint32_t open_unit = std::numeric_limits<uint32_t>::max();
  for (const DenseLayout::Block& block : layout.blocks()) {
    if (block.unit != open_unit) {
      open_unit = block.unit;
      stretches.push_back({block.begin, block.begin, static_cast<int>(block.unit)});
    }
    UnitStretch& stretch = stretches.back();
    stretch.end = block.end;
    for (const DenseLayout::Piece& piece : block.pieces) {
      stretch.ready_unit =
          std::min(stretch.ready_unit, static_cast<int>(first_units[piece.tensor]));
    }
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
    while (end > stretch->begin) {
      if (room == 0) {
        room = capacity(plan.size());
        plan.push_back({end, end, stretch->ready_unit});
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
    absl::StrAppend(&text, bucket.begin, "-", bucket.end, "@", bucket.ready_unit, ";");
  }
  return Fingerprint(text);
}

}  // namespace muster
