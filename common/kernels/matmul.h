#ifndef MUSTER_COMMON_KERNELS_MATMUL_H_
#define MUSTER_COMMON_KERNELS_MATMUL_H_

#include <cstdint>

#include "common/kernels/accumulation.h"

namespace muster {

enum class Transpose { kNo, kYes };

// c = op(a) · op(b), or c += op(a) · op(b), all row-major and dense:
//   op(a) is [m, k]: a is [m, k], or [k, m] when transposed;
//   op(b) is [k, n]: b is [k, n], or [n, k] when transposed;
//   c is [m, n] and overlaps neither.
// Extents of 0 are fine: k = 0 writes zeros or adds nothing. NaN in an input reaches the output.
// One oneDNN call on SetComputeThreads() threads; for one machine type and one number of threads
// the same inputs give the same bits. Thread-safe.
void Matmul(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k,
            const float* a, const float* b, Accumulation accumulation, float* c);

// Does the same with strides: elements from one stored row to the next. Extents are not 0.
struct MatmulShape {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t c_stride = 0;
};
void StridedMatmul(const MatmulShape& shape, const float* a, const float* b,
                   Accumulation accumulation, float* c);

// How many threads a Matmul called *from this thread* computes on; 1 until set. oneDNN here runs on
// OpenMP, whose number of threads is a property of the calling thread, so that ranks that are
// threads of one process do not share the setting; a task that computes on several threads sets it
// on each. REQUIRES: threads >= 1.
void SetComputeThreads(int threads);

// The calling thread's present setting.
int ComputeThreads();

// Tells OpenMP on the calling thread: before any use of oneDNN, as Matmul does itself.
void ApplyComputeThreads();

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_MATMUL_H_
