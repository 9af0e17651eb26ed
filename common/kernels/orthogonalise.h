#ifndef MUSTER_COMMON_KERNELS_ORTHOGONALISE_H_
#define MUSTER_COMMON_KERNELS_ORTHOGONALISE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// Replaces a row-major matrix X [rows, columns] by nearly the orthogonal matrix next to it: with X
// = U S Vᵀ, by U T Vᵀ, where the singular values in T lie between about 0.7 and 1.2, whatever those
// of X are, except for those that are tiny beside the largest ones. Jordan et al., "Muon", 2024:
// five steps of a Newton-Schulz iteration
//
//   X = X / (|X| + 1e-7);  five times  A = X Xᵀ,  X = (a I + b A + c A²) X
//
// with (a, b, c) = (3.4445, -4.7750, 2.0315), chosen so that small singular values grow fast; they
// do not converge to 1. Of a matrix with more rows than columns, A is Xᵀ X, which stands on the
// other side. All in f32. A matrix of zeros stays one; a NaN spreads over the matrix.
//
// Costs, with r the smaller and c the larger extent, 10 (2 r² c + r³) multiplications and
// additions; and r c + 2 r² floats of memory (orthogonalise_scratch.h), of which the calling thread
// keeps what one matrix needs. For one machine type and number of threads (matmul.h) the same
// matrix gives the same bits. Not from inside a ParallelFor. Thread-safe.
void Orthogonalise(int64_t rows, int64_t columns, absl::Span<float> matrix);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_ORTHOGONALISE_H_
