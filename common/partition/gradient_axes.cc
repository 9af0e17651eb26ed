#include "common/partition/gradient_axes.h"

namespace muster {

GradientSpread GradientAlong(const TensorSpec& share, Axis axis, bool divides_tokens) {
  switch (axis) {
    case Axis::kReplica:
    case Axis::kShard:
    case Axis::kContext:
      return GradientSpread::kPartial;
    case Axis::kPipeline:
      return share.stages > 1 ? GradientSpread::kPartial : GradientSpread::kSharded;
    case Axis::kTensor:
      if (share.placement.kind != Placement::Kind::kReplicate) return GradientSpread::kSharded;
      return divides_tokens ? GradientSpread::kPartial : GradientSpread::kReplicated;
  }
  return GradientSpread::kReplicated;
}

absl::Span<const SharedElements> PartialElements(const TensorSpec& share, bool divides_tokens) {
  const bool computed_alike =
      GradientAlong(share, Axis::kTensor, divides_tokens) == GradientSpread::kReplicated;
  // The owner of the storage has the gradient of a tied tensor.
  if (computed_alike || !share.tied_to.empty()) return {};
  return share.shared;
}

}  // namespace muster
