#ifndef MUSTER_COMMON_TABLES_SQUARED_NORM_H_
#define MUSTER_COMMON_TABLES_SQUARED_NORM_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// Sum of squares in f64, in the order of SquaredSum (common/kernels/elementwise.h).
double SquaredNorm(absl::Span<const float> values);

// The same of rows of `dim` floats each, with the bits of their concatenation's.
double SquaredNorm(absl::Span<const float* const> rows, uint32_t dim);

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_SQUARED_NORM_H_
