#ifndef MUSTER_COMMON_KERNELS_ORTHOGONALISE_SCRATCH_H_
#define MUSTER_COMMON_KERNELS_ORTHOGONALISE_SCRATCH_H_

#include <algorithm>
#include <cstdint>

namespace muster {

// Returns the floats of memory that Orthogonalise (orthogonalise.h) needs beside a matrix. Apart
// from it, since plans need no oneDNN.
inline int64_t OrthogonaliseScratch(int64_t rows, int64_t columns) {
  const int64_t small = std::min(rows, columns);
  return rows * columns + 2 * small * small;
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_ORTHOGONALISE_SCRATCH_H_
