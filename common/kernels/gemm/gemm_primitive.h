#ifndef MUSTER_COMMON_KERNELS_GEMM_GEMM_PRIMITIVE_H_
#define MUSTER_COMMON_KERNELS_GEMM_GEMM_PRIMITIVE_H_

#include <cstdint>
#include <utility>

#include "common/kernels/accumulation.h"
#include "common/kernels/gemm/gemm.h"

namespace muster {

// A matrix product as a oneDNN matmul primitive, made once for a shape and kept. Private to gemm.cc
// and its benchmark.
struct GemmProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  // Real strides, not 0.
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t c_stride = 0;
  // Whether a and b, and whether c, are bf16 rather than f32.
  bool bf16_in = false;
  bool bf16_out = false;
  Accumulation accumulation = Accumulation::kWrite;
  bool has_bias = false;

  friend bool operator==(const GemmProblem&, const GemmProblem&) = default;

  template <typename H>
  friend H AbslHashValue(H h, const GemmProblem& p) {
    return H::combine(std::move(h), p.m, p.n, p.k, p.transpose_a, p.transpose_b, p.a_stride,
                      p.b_stride, p.c_stride, p.bf16_in, p.bf16_out, p.accumulation, p.has_bias);
  }
};

// Extents are not 0. Thread-safe.
void RunGemmPrimitive(const GemmProblem& problem, const void* a, const void* b, const float* bias,
                      void* c);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_GEMM_GEMM_PRIMITIVE_H_
