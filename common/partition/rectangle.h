#ifndef MUSTER_COMMON_PARTITION_RECTANGLE_H_
#define MUSTER_COMMON_PARTITION_RECTANGLE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace muster {

// Index arithmetic of hyper-rectangles: the part of a tensor from `start` on, `extent` long in each
// dimension. Elements of a rectangle are counted row-major within it, the tensor's row-major over
// `shape`.
//
// Example: shape {4, 5}, start {1, 2}, extent {2, 3}: the rectangle's 6 elements are the tensor's
// 7, 8, 9 and 12, 13, 14: twice three consecutive ones.

// Calls `visitor(first, global, count)` for each longest series of the rectangle's elements [begin,
// end) that are consecutive in the tensor, too, in ascending order: `count` elements, from `first`
// on in the rectangle, from `global` on in the tensor. An empty `start` and `extent` stand for the
// whole tensor. REQUIRES: the rectangle is within the shape, the range within the rectangle.
void ForEachContiguous(
    absl::Span<const int64_t> shape, absl::Span<const int64_t> start,
    absl::Span<const int64_t> extent, uint64_t begin, uint64_t end,
    absl::FunctionRef<void(uint64_t first, uint64_t global, uint64_t count)> visitor);

// Returns whether the rectangle is within the shape (or stands for the whole), and has at least
// `elements` elements.
bool IsRectangleOf(absl::Span<const int64_t> shape, absl::Span<const int64_t> start,
                   absl::Span<const int64_t> extent, uint64_t elements);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_RECTANGLE_H_
