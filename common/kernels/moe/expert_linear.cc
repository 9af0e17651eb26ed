#include "common/kernels/moe/expert_linear.h"

#include <type_traits>

#include "absl/numeric/bits.h"
#include "common/base/machine/multiplies_bfloat16.h"
#include "common/kernels/gemm/gemm.h"
#include "common/tensor/bfloat16.h"

namespace muster {
namespace {

// Calls f(first row, rows) for the pieces in which an expert's rows are multiplied, one after
// another; once for no rows.
//
// An expert has another number of rows in each step. But oneDNN keeps the kernels of the last
// thousand shapes of bf16 products, which take 0.1 to 0.2 MB each. So the pieces of such products
// have few sizes: powers of two from kLeast on, and in the end fewer than kLeast.
template <typename T, typename F>
void ForPieces(int64_t rows, const F& f) {
  constexpr uint64_t kLeast = 16;
  if (!std::is_same_v<T, BFloat16> || !MultipliesBFloat16()) return f(0, rows);
  int64_t first = 0;
  do {
    const auto left = static_cast<uint64_t>(rows - first);
    const auto piece = static_cast<int64_t>(left < kLeast ? left : absl::bit_floor(left));
    f(first, piece);
    first += piece;
  } while (first < rows);
}

}  // namespace

template <typename T>
void ExpertLinearForward(const ExpertLinear& linear, const int32_t* offsets, const T* x,
                         const T* weight, T* y) {
  for (int64_t e = 0; e < linear.experts; ++e) {
    ForPieces<T>(offsets[e + 1] - offsets[e], [&](int64_t first, int64_t rows) {
      const int64_t begin = offsets[e] + first;
      Gemm(rows, linear.out, linear.in, x + begin * linear.in, weight + e * linear.out * linear.in,
           y + begin * linear.out, {.transpose_b = Transpose::kYes});
    });
  }
}

template <typename T>
void ExpertLinearBackwardInput(const ExpertLinear& linear, const int32_t* offsets, const T* dy,
                               const T* weight, T* dx) {
  for (int64_t e = 0; e < linear.experts; ++e) {
    ForPieces<T>(offsets[e + 1] - offsets[e], [&](int64_t first, int64_t rows) {
      const int64_t begin = offsets[e] + first;
      Gemm(rows, linear.in, linear.out, dy + begin * linear.out,
           weight + e * linear.out * linear.in, dx + begin * linear.in);
    });
  }
}

template <typename T>
void ExpertLinearBackwardWeights(const ExpertLinear& linear, const int32_t* offsets,
                                 const ExpertLinearGradientArrays& arrays) {
  for (int64_t e = 0; e < linear.experts; ++e) {
    const auto multiply = [&](int64_t first, int64_t rows) {
      const int64_t begin = offsets[e] + first;
      Gemm(linear.out, linear.in, rows, static_cast<const T*>(arrays.dy) + begin * linear.out,
           static_cast<const T*>(arrays.x) + begin * linear.in,
           arrays.weight + e * linear.out * linear.in,
           {.transpose_a = Transpose::kYes,
            .accumulation = first == 0 ? arrays.accumulation : Accumulation::kAdd});
    };
    // Depth 0 writes zeros, or adds nothing.
    ForPieces<T>(offsets[e + 1] - offsets[e], multiply);
  }
}

template void ExpertLinearForward(const ExpertLinear&, const int32_t*, const float*, const float*,
                                  float*);
template void ExpertLinearForward(const ExpertLinear&, const int32_t*, const BFloat16*,
                                  const BFloat16*, BFloat16*);
template void ExpertLinearForward(const ExpertLinear&, const int32_t*, const Float16*,
                                  const Float16*, Float16*);
template void ExpertLinearBackwardInput(const ExpertLinear&, const int32_t*, const float*,
                                        const float*, float*);
template void ExpertLinearBackwardInput(const ExpertLinear&, const int32_t*, const BFloat16*,
                                        const BFloat16*, BFloat16*);
template void ExpertLinearBackwardInput(const ExpertLinear&, const int32_t*, const Float16*,
                                        const Float16*, Float16*);
template void ExpertLinearBackwardWeights<float>(const ExpertLinear&, const int32_t*,
                                                 const ExpertLinearGradientArrays&);
template void ExpertLinearBackwardWeights<BFloat16>(const ExpertLinear&, const int32_t*,
                                                    const ExpertLinearGradientArrays&);
template void ExpertLinearBackwardWeights<Float16>(const ExpertLinear&, const int32_t*,
                                                   const ExpertLinearGradientArrays&);

}  // namespace muster
