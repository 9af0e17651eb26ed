#ifndef MUSTER_COMMON_PARTITION_LOCAL_TENSORS_H_
#define MUSTER_COMMON_PARTITION_LOCAL_TENSORS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// These functions are pure: workers, servers and the planner compute the same.

// Returns the shares of tensors that one rank of a tensor group of `ranks` has (Placement), in the
// same order, with the same names and ties. Says which elements several ranks have: replicated
// tensors, and sections of fewer units than ranks. A rank that has nothing of a tensor has a share
// without elements. InvalidArgument, naming the tensor and the numbers: a section's units do not
// divide among the ranks, nor the ranks among the units. REQUIRES: 0 <= rank < ranks; whole
// tensors.
//
// For example, 2 ranks divide queries, keys and values of 4, 2 and 2 heads of 8 columns: sections
// {32, 4}, {16, 2}, {16, 2} along dimension 0 of a tensor of 64 rows. Rank 1 has 32 rows: rows 16
// to 31, 40 to 47 and 56 to 63.
absl::StatusOr<std::vector<TensorSpec>> LocalTensors(absl::Span<const TensorSpec> tensors,
                                                     int ranks, int rank);

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
