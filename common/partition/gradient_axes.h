#ifndef MUSTER_COMMON_PARTITION_GRADIENT_AXES_H_
#define MUSTER_COMMON_PARTITION_GRADIENT_AXES_H_

#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// Says how ranks that differ on one axis of the mesh have a tensor's gradient after backward.
enum class GradientSpread {
  // The ranks have the same gradient.
  kReplicated,
  // Each rank has the gradient of its share alone.
  kSharded,
  // Each rank has a part, and the gradient is their sum.
  kPartial,
};

// Returns who has the gradient of a rank's share of a tensor (LocalTensors) along an axis:
//
//   axis                       gradient
//   replica, shard, context    partial: each rank has other examples or tokens. Replicas and shards
//                              sum, then each shard steps its slice (ShardLayout).
//   pipeline                   partial if several stages have the tensor; otherwise of one stage
//   tensor                     of a divided tensor: sharded, but see PartialElements; of a
//   replicated
//                              one: partial if tensor ranks divide the tokens, otherwise replicated
//
// Elements that several ranks hold count once in norms, checkpoints and pushes: they are `repeated`
// on all but the first rank (DenseLayout::Block).
GradientSpread GradientAlong(const TensorSpec& share, Axis axis, bool divides_tokens);

// Returns the elements of a share of which several tensor ranks each have a part of the gradient,
// in order.
absl::Span<const SharedElements> PartialElements(const TensorSpec& share, bool divides_tokens);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_GRADIENT_AXES_H_
