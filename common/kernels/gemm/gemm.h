#ifndef MUSTER_COMMON_KERNELS_GEMM_GEMM_H_
#define MUSTER_COMMON_KERNELS_GEMM_GEMM_H_

#include <cstdint>

#include "common/kernels/accumulation.h"
#include "common/kernels/matmul.h"
#include "common/tensor/bfloat16.h"

namespace muster {

struct GemmOptions {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  // Elements from one stored row to the next, at least the row's length; 0 for dense.
  int64_t a_stride = 0;
  int64_t c_stride = 0;
  // kAdd, in f32, for gradients of weights: only where c is f32.
  Accumulation accumulation = Accumulation::kWrite;
  // bias[n], f32, added to every row of c; null for none. Not together with kAdd.
  const float* bias = nullptr;
};

// c = op(a) · op(b) + bias, or c += op(a) · op(b); row-major, op(a) [m, k], op(b) [k, n], c [m, n],
// which overlaps neither. Stored, a is [m, k], or [k, m] when transposed; b [k, n] or [n, k]. So a
// linear layer with weights [out, in] is
//   y = x · Wᵀ + bias    Gemm(rows, out, in, x, W, y, {.transpose_b = kYes, .bias = bias})
//   dx = dy · W          Gemm(rows, in, out, dy, W, dx)
//   dW += dyᵀ · x        Gemm(out, in, rows, dy, x, dW,
//                             {.transpose_a = kYes, .accumulation = kAdd})
//
// Types (In, Out): (float, float), (H, float) and (H, H) with H BFloat16 or Float16. Products of 16
// bits are summed in f32 and rounded once. Of bf16, by the machine's instructions where that is
// faster (common/base/machine/multiplies_bfloat16.h); otherwise, and of f16 always (AVX512-FP16
// sums in f16), operands become f32 by blocks: at most 4 MiB of a and 12 MiB of b at a time. Where
// c is of 16 bits, its sums are f32 until they are whole: min(m, 2^20 / k) · min(n, 3 · 2^20 / k)
// of them at a time, and all m · n where k > 4096. The calling thread keeps all that as scratch,
// for each type of its own, and the blocks of operands for each of these two ways of summing.
//
// oneDNN on ComputeThreads() threads; not from inside a ParallelFor. For one machine type and
// number of threads the same inputs give the same bits. What oneDNN prepares for a shape is kept
// for the next call of that shape and number of threads, the 1,024 last used of them for the
// process. Extents of 0 are fine. NaN in an input reaches the output. Thread-safe.
template <typename In, typename Out>
void Gemm(int64_t m, int64_t n, int64_t k, const In* a, const In* b, Out* c,
          const GemmOptions& options = {});

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_GEMM_GEMM_H_
