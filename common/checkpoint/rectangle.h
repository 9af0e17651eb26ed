#ifndef MUSTER_COMMON_CHECKPOINT_RECTANGLE_H_
#define MUSTER_COMMON_CHECKPOINT_RECTANGLE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace muster {

// Index arithmetic of hyper-rectangles: the part of a tensor from `start` on, `extent` long in each
// dimension. Elements of the rectangle are counted row-major within it, those of the tensor
// row-major over `shape`.
//
// Example: shape {4, 5}, start {1, 2}, extent {2, 3}: the rectangle's 6 elements are the tensor's
// 7, 8, 9, 12, 13, 14: two intervals of three.

// Calls `visitor(first, global, count)` for elements [begin, end) of the rectangle, as many at a
// time as are consecutive in the tensor: the rectangle's `count` elements from `first` on are the
// tensor's from `global` on. In ascending order. An empty `start` and `extent` stand for the whole
// tensor. REQUIRES: the rectangle is within the shape, the range within the rectangle.
void ForEachContiguous(
    absl::Span<const int64_t> shape, absl::Span<const int64_t> start,
    absl::Span<const int64_t> extent, uint64_t begin, uint64_t end,
    absl::FunctionRef<void(uint64_t first, uint64_t global, uint64_t count)> visitor);

// Whether the rectangle is within the shape (or stands for the whole), and has at least `elements`
// elements.
bool IsRectangleOf(absl::Span<const int64_t> shape, absl::Span<const int64_t> start,
                   absl::Span<const int64_t> extent, uint64_t elements);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_RECTANGLE_H_
