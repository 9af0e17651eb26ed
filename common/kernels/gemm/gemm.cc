#include "common/kernels/gemm/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "common/base/machine/multiplies_bfloat16.h"
#include "common/kernels/aligned_floats.h"
#include "common/kernels/gemm/gemm_primitive.h"
#include "common/kernels/gemm/wide_block.h"
#include "common/kernels/transformer/convert.h"

namespace muster {
namespace {

constexpr int64_t kLargestDepth = WideBlock::kLargestDepth;

// A real stride for a stored row of `length`.
int64_t StrideOr(int64_t stride, int64_t length) { return stride != 0 ? stride : length; }

GemmProblem ProblemOf(int64_t m, int64_t n, int64_t k, const GemmOptions& options) {
  return {.m = m,
          .n = n,
          .k = k,
          .transpose_a = options.transpose_a,
          .transpose_b = options.transpose_b,
          .a_stride = StrideOr(options.a_stride, options.transpose_a == Transpose::kYes ? m : k),
          .b_stride = options.transpose_b == Transpose::kYes ? k : n,
          .c_stride = StrideOr(options.c_stride, n),
          .accumulation = options.accumulation,
          .has_bias = options.bias != nullptr};
}

// A product of depth 0.
template <typename Out>
void WriteBias(const GemmProblem& p, const float* bias, Out* c) {
  if (p.accumulation == Accumulation::kAdd) return;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      StoreRounded(bias != nullptr ? bias[j] : 0, c + i * p.c_stride + j);
    }
  }
}

void RunF32(const GemmProblem& p, const float* a, const float* b, const float* bias, float* c) {
  if (bias != nullptr) return RunGemmPrimitive(p, a, b, bias, c);
  StridedMatmul({.transpose_a = p.transpose_a,
                 .transpose_b = p.transpose_b,
                 .m = p.m,
                 .n = p.n,
                 .k = p.k,
                 .a_stride = p.a_stride,
                 .b_stride = p.b_stride,
                 .c_stride = p.c_stride},
                a, b, p.accumulation, c);
}

// Products of 16-bit numbers by f32 instructions: operands become f32 by blocks that stay in the
// caches, A's once for every block of B.
template <typename In>
class WidenedGemm {
 public:
  WidenedGemm(const GemmProblem& problem, const In* a, const In* b, const float* bias)
      : p_(problem), a_(a), b_(b), bias_(bias) {}

  void Run(float* c) { RunDepth(c, p_.c_stride); }

  void Run(In* c) {
    thread_local AlignedFloats sums;
    if (p_.k > kLargestDepth) {
      // Summed over blocks of depth in f32, so all of c at once.
      float* wide = sums.Reserve(p_.m * p_.n);
      RunDepth(wide, p_.n);
      ConvertRows(p_.m, p_.n, wide, p_.n, c, p_.c_stride);
      return;
    }
    ForBlocks(0, p_.k,
              [&](const GemmProblem& block, int64_t i, int64_t j, const float* a, const float* b) {
                GemmProblem dense = block;
                dense.c_stride = block.n;
                float* wide = sums.Reserve(block.m * block.n);
                RunF32(dense, a, b, bias_ != nullptr ? bias_ + j : nullptr, wide);
                ConvertRows(block.m, block.n, wide, block.n, c + i * p_.c_stride + j, p_.c_stride);
              });
  }

 private:
  void RunDepth(float* c, int64_t c_stride) {
    for (int64_t k = 0; k < p_.k; k += kLargestDepth) {
      ForBlocks(
          k, std::min(kLargestDepth, p_.k - k),
          [&](const GemmProblem& block, int64_t i, int64_t j, const float* a, const float* b) {
            GemmProblem part = block;
            part.c_stride = c_stride;
            if (k > 0) part.accumulation = Accumulation::kAdd;
            const float* bias = bias_ != nullptr && k == 0 ? bias_ + j : nullptr;
            part.has_bias = bias != nullptr;
            RunF32(part, a, b, bias, c + i * c_stride + j);
          });
    }
  }

  // Calls f(block, first row, first column, a's block, b's block) for all blocks of c and the depth
  // [k, k + depth).
  template <typename F>
  void ForBlocks(int64_t k, int64_t depth, const F& f) {
    thread_local AlignedFloats wide_a, wide_b;
    const WideBlock most = WideBlockOf(p_.m, p_.n, depth);
    for (int64_t j = 0; j < p_.n; j += most.cols) {
      GemmProblem block = p_;
      block.k = depth;
      block.n = std::min(most.cols, p_.n - j);
      float* b = wide_b.Reserve(block.n * depth);
      if (p_.transpose_b == Transpose::kYes) {
        ConvertRows(block.n, depth, b_ + j * p_.b_stride + k, p_.b_stride, b, depth);
        block.b_stride = depth;
      } else {
        ConvertRows(depth, block.n, b_ + k * p_.b_stride + j, p_.b_stride, b, block.n);
        block.b_stride = block.n;
      }
      for (int64_t i = 0; i < p_.m; i += most.rows) {
        block.m = std::min(most.rows, p_.m - i);
        float* a = wide_a.Reserve(block.m * depth);
        if (p_.transpose_a == Transpose::kYes) {
          ConvertRows(depth, block.m, a_ + k * p_.a_stride + i, p_.a_stride, a, block.m);
          block.a_stride = block.m;
        } else {
          ConvertRows(block.m, depth, a_ + i * p_.a_stride + k, p_.a_stride, a, depth);
          block.a_stride = depth;
        }
        f(block, i, j, a, b);
      }
    }
  }

  const GemmProblem p_;
  const In* const a_;
  const In* const b_;
  const float* const bias_;
};

}  // namespace

template <typename In, typename Out>
void Gemm(int64_t m, int64_t n, int64_t k, const In* a, const In* b, Out* c,
          const GemmOptions& options) {
  if (m == 0 || n == 0) return;
  GemmProblem problem = ProblemOf(m, n, k, options);
  if (k == 0) return WriteBias(problem, options.bias, c);
  if constexpr (std::is_same_v<In, float>) {
    RunF32(problem, a, b, options.bias, c);
  } else if (std::is_same_v<In, BFloat16> && MultipliesBFloat16()) {
    problem.bf16_in = true;
    problem.bf16_out = std::is_same_v<Out, BFloat16>;
    RunGemmPrimitive(problem, a, b, options.bias, c);
  } else {
    WidenedGemm(problem, a, b, options.bias).Run(c);
  }
}

template void Gemm(int64_t, int64_t, int64_t, const float*, const float*, float*,
                   const GemmOptions&);
template void Gemm(int64_t, int64_t, int64_t, const BFloat16*, const BFloat16*, float*,
                   const GemmOptions&);
template void Gemm(int64_t, int64_t, int64_t, const Float16*, const Float16*, float*,
                   const GemmOptions&);
template void Gemm(int64_t, int64_t, int64_t, const BFloat16*, const BFloat16*, BFloat16*,
                   const GemmOptions&);
template void Gemm(int64_t, int64_t, int64_t, const Float16*, const Float16*, Float16*,
                   const GemmOptions&);

}  // namespace muster
