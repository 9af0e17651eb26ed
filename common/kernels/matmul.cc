#include "common/kernels/matmul.h"

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

// c = beta · c, where a product of depth 0 adds nothing.
void Scale(int64_t n, float beta, float* c) {
  for (int64_t i = 0; i < n; ++i) c[i] = beta == 0 ? 0 : beta * c[i];
}

void Multiply(const MatmulShape& shape, float alpha, const float* a, const float* b, float beta,
              float* c) {
  ApplyComputeThreads();
  const dnnl_status_t status =
      dnnl_sgemm(shape.transpose_a == Transpose::kYes ? 'T' : 'N',
                 shape.transpose_b == Transpose::kYes ? 'T' : 'N', shape.m, shape.n, shape.k, alpha,
                 a, shape.a_stride, b, shape.b_stride, beta, c, shape.c_stride);
  if (status != dnnl_success) {
    // Extents and pointers that no caller may pass; there is nothing to go on with.
    std::fprintf(stderr, "Matmul of m=%lld, n=%lld, k=%lld: oneDNN refused it with status %d\n",
                 static_cast<long long>(shape.m), static_cast<long long>(shape.n),
                 static_cast<long long>(shape.k), static_cast<int>(status));
    std::abort();
  }
}

}  // namespace

void Matmul(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k,
            float alpha, const float* a, const float* b, float beta, float* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) return Scale(m * n, beta, c);
  Multiply({.transpose_a = transpose_a,
            .transpose_b = transpose_b,
            .m = m,
            .n = n,
            .k = k,
            .a_stride = transpose_a == Transpose::kYes ? m : k,
            .b_stride = transpose_b == Transpose::kYes ? k : n,
            .c_stride = n},
           alpha, a, b, beta, c);
}

void StridedMatmul(const MatmulShape& shape, const float* a, const float* b, float beta, float* c) {
  Multiply(shape, 1, a, b, beta, c);
}

void SetComputeThreads(int threads) { compute_threads = threads; }

int ComputeThreads() { return compute_threads; }

void ApplyComputeThreads() {
  if (openmp_threads == compute_threads) return;
  omp_set_num_threads(compute_threads);
  openmp_threads = compute_threads;
}

}  // namespace muster
