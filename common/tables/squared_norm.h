#ifndef MUSTER_COMMON_TABLES_SQUARED_NORM_H_
#define MUSTER_COMMON_TABLES_SQUARED_NORM_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/partition/cells.h"

namespace muster {

// Returns the sum of squares in f64, in the order of SquaredSum (common/kernels/elementwise.h).
double SquaredNorm(absl::Span<const float> values);

// Calls `visitor` with the sum of squares of each cell of a stretch of elements, in order.
void SquaredNorms(absl::Span<const float> values, const Cells& cells,
                  absl::FunctionRef<void(double squared_norm)> visitor);

// Returns the sum of squares over the cells of a stretch, in order.
double SquaredNorm(absl::Span<const float> values, const Cells& cells);

// Returns the sum of squares in f64, to the bit as SquaredNorm of the concatenation, for rows
// of `dim` floats each.
double SquaredNorm(absl::Span<const float* const> rows, uint32_t dim);

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_SQUARED_NORM_H_
