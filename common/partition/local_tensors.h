#ifndef MUSTER_COMMON_PARTITION_LOCAL_TENSORS_H_
#define MUSTER_COMMON_PARTITION_LOCAL_TENSORS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// These functions are pure: workers, servers and the planner compute the same.

// The way in which the ranks that compute a model together, those of one data rank, divide its
// tensors: each stage of a pipeline has the tensors of its units, and of these each of its tensor
// ranks has a share. Of the tensors of experts, each expert rank has a share.
struct ModelDivision {
  // The mesh along kShareAxes.
  Mesh mesh;
  // With several stages, the number of units in each virtual stage; virtual stage g is of stage g
  // mod stages(), and the last one has all further units.
  std::vector<int> virtual_stage_units;

  int stages() const { return mesh.size(Axis::kPipeline); }
  // Returns the stage that has the unit.
  int StageOf(int unit) const;
};

// Returns the shares of tensors that one of the ranks has, in the same order and with the same
// names. A rank that has nothing of a tensor has a share without elements, which is tied to none.
// InvalidArgument, naming the tensor and the numbers: a section's units do not divide among the
// tensor ranks, nor the ranks among the units; or expert ranks do not divide the experts. REQUIRES:
// 0 <= rank < division.mesh.world_size(); whole tensors.
//
// Tensor ranks: says which elements several of them have (TensorSpec::shared): replicated tensors,
// and sections of fewer units than ranks. For example, 2 ranks divide queries, keys and values of
// 4, 2 and 2 heads of 8 columns: sections {32, 4}, {16, 2}, {16, 2} along dimension 0 of a tensor
// of 64 rows. Rank 1 has 32 rows: rows 16 to 31, 40 to 47 and 56 to 63.
//
// Stages: a stage with a tensor that is tied to one of another stage has that one's share, too
// (TensorSpec::stages), in the first of its own units that reads it. All stages that have it hold
// and step it alike, with the sum of the gradients of all. For example, of units 0 to 3 with a head
// in unit 3 that is tied to an embedding in unit 0, stage 1 of virtual stages {2, 2} has the
// embedding in unit 3, with the head tied to it; stage 0 has the embedding in unit 0, and an empty
// head.
absl::StatusOr<std::vector<TensorSpec>> LocalTensors(absl::Span<const TensorSpec> tensors,
                                                     const ModelDivision& division, int rank);

// Returns the elements of a share of which each of several tensor ranks has a part of the gradient,
// which is the sum of all parts, in order. Tensor ranks have the whole gradient of other elements
// that they share. Beside these, each data rank has a part of every gradient, and so has each stage
// of several that have a tensor (TensorSpec::stages). Elements that several ranks hold count once
// in norms, checkpoints and pushes: they are `repeated` on all but the first rank
// (DenseLayout::Block).
absl::Span<const SharedElements> PartialElements(const TensorSpec& share, bool divides_tokens);

// Returns the shape of the whole tensor.
inline const std::vector<int64_t>& GlobalShape(const TensorSpec& tensor) {
  return tensor.global_shape.empty() ? tensor.shape : tensor.global_shape;
}

// Calls `visitor(rectangle, begin, end)` for each rectangle of the global tensor that has some of
// the tensor's elements [begin, end), in order: they are elements [begin, end) of the rectangle. A
// whole tensor is one rectangle.
void ForEachRectangle(
    const TensorSpec& tensor, uint64_t begin, uint64_t end,
    absl::FunctionRef<void(const Rectangle& rectangle, uint64_t begin, uint64_t end)> visitor);

// Calls `visitor(first, global, count)` for each longest series of the tensor's elements [begin,
// end) that are consecutive in the global tensor and in one rectangle, in order: `count` elements
// from `first` on are those of the global tensor from `global` on.
void ForEachGlobal(
    const TensorSpec& tensor, uint64_t begin, uint64_t end,
    absl::FunctionRef<void(uint64_t first, uint64_t global, uint64_t count)> visitor);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_LOCAL_TENSORS_H_
