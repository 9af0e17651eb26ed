#ifndef MUSTER_COMMON_TABLES_SQUARED_NORM_H_
#define MUSTER_COMMON_TABLES_SQUARED_NORM_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// Returns the sum of squares in f64, in the order of SquaredSum (common/kernels/elementwise.h).
double SquaredNorm(absl::Span<const float> values);

// Returns the same for rows of `dim` floats each, to the bit as for their concatenation.
double SquaredNorm(absl::Span<const float* const> rows, uint32_t dim);

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_SQUARED_NORM_H_
