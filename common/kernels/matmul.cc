#include "common/kernels/matmul.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "dnnl.h"

// Of OpenMP's runtime, which oneDNN uses here. Declared, because omp.h comes with one compiler
// only.
extern "C" {
void omp_set_num_threads(int threads);
}

namespace muster {
namespace {

// This thread's number, and what OpenMP was last told on it (0: nothing yet).
thread_local int compute_threads = 1;
thread_local int openmp_threads = 0;

}  // namespace

void StridedMatmul(const MatmulShape& shape, const float* a, const float* b,
                   Accumulation accumulation, float* c) {
  const float beta = accumulation == Accumulation::kAdd ? 1 : 0;
  ApplyComputeThreads();
  const dnnl_status_t status =
      dnnl_sgemm(shape.transpose_a == Transpose::kYes ? 'T' : 'N',
                 shape.transpose_b == Transpose::kYes ? 'T' : 'N', shape.m, shape.n, shape.k, 1, a,
                 shape.a_stride, b, shape.b_stride, beta, c, shape.c_stride);
  if (status != dnnl_success) {
    // Extents and pointers that no caller may pass; there is nothing to go on with.
    std::fprintf(stderr, "Matmul of m=%lld, n=%lld, k=%lld: oneDNN refused it with status %d\n",
                 static_cast<long long>(shape.m), static_cast<long long>(shape.n),
                 static_cast<long long>(shape.k), static_cast<int>(status));
    std::abort();
  }
}

void Matmul(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k,
            const float* a, const float* b, Accumulation accumulation, float* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (accumulation == Accumulation::kWrite) std::fill_n(c, m * n, 0.0f);
    return;
  }
  StridedMatmul({.transpose_a = transpose_a,
                 .transpose_b = transpose_b,
                 .m = m,
                 .n = n,
                 .k = k,
                 .a_stride = transpose_a == Transpose::kYes ? m : k,
                 .b_stride = transpose_b == Transpose::kYes ? k : n,
                 .c_stride = n},
                a, b, accumulation, c);
}

void SetComputeThreads(int threads) { compute_threads = threads; }

int ComputeThreads() { return compute_threads; }

void ApplyComputeThreads() {
  if (openmp_threads == compute_threads) return;
  omp_set_num_threads(compute_threads);
  openmp_threads = compute_threads;
}

}  // namespace muster
