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

}  // namespace

void Matmul(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k,
            float alpha, const float* a, const float* b, float beta, float* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) return Scale(m * n, beta, c);
  if (openmp_threads != compute_threads) {
    omp_set_num_threads(compute_threads);
    openmp_threads = compute_threads;
  }
  const bool ta = transpose_a == Transpose::kYes;
  const bool tb = transpose_b == Transpose::kYes;
  const dnnl_status_t status = dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a,
                                          ta ? m : k, b, tb ? k : n, beta, c, n);
  if (status != dnnl_success) {
    // Extents and pointers that no caller may pass; there is nothing to go on with.
    std::fprintf(stderr, "Matmul of m=%lld, n=%lld, k=%lld: oneDNN refused it with status %d\n",
                 static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(k),
                 static_cast<int>(status));
    std::abort();
  }
}

void SetComputeThreads(int threads) { compute_threads = threads; }

int ComputeThreads() { return compute_threads; }

}  // namespace muster
