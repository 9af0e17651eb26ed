#include "common/kernels/softmax_cross_entropy.h"

#include <bit>
#include <cmath>
#include <limits>

#include "common/base/machine/simd_clones.h"

namespace muster {
namespace {

// Lanes fix one order of summation that any vector width can follow.
constexpr int64_t kLanes = 16;

// exp for x ≤ 0 to about 1 ulp, without a call, so that loops over it become vector code. x = k ln
// 2 + r with |r| ≤ (ln 2)/2; exp(r) is its Taylor series to r⁷, whose rest is below 6e-9; k goes
// into the exponent's bits. Below -87, near the least normal number, the answer stays at exp(-87)
// ≈ 1.6e-38: a softmax does not see the difference. NaN stays NaN.
MUSTER_ALWAYS_INLINE float ExpOfNonPositive(float x) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // Few bits, so that its product with k is exact.
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound =
      12582912.0f;  // 1.5 · 2^23: adding it leaves the nearest integer in the low bits.
  const float bounded = x < -87.0f ? -87.0f : x;
  const float shifted = bounded * kLog2E + kRound;
  const float k = shifted - kRound;
  const float r = (bounded - k * kLn2High) - k * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  return p * std::bit_cast<float>(power);
}

MUSTER_ALWAYS_INLINE float Maximum(int64_t n, const float* x) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
  }
  for (int64_t l = 0; i + l < n; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
  float maximum = lanes[0];
  for (float lane : lanes) maximum = lane > maximum ? lane : maximum;
  return maximum;
}

MUSTER_ALWAYS_INLINE float SumOfExp(int64_t n, const float* x, float maximum) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += ExpOfNonPositive(x[i + l] - maximum);
  }
  for (int64_t l = 0; i + l < n; ++l) lanes[l] += ExpOfNonPositive(x[i + l] - maximum);
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

// softmax(x) of a row whose maximum is known, and SumOfExp.
MUSTER_ALWAYS_INLINE void WriteSoftmax(int64_t n, const float* x, float maximum, float sum,
                                       float* probabilities) {
  const float inverse = 1.0f / sum;
  MUSTER_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) probabilities[i] = ExpOfNonPositive(x[i] - maximum) * inverse;
}

// Index of the first element that equals `value`; n if there is none.
MUSTER_ALWAYS_INLINE int64_t FirstEqual(int64_t n, const float* x, float value) {
  int64_t i = 0;
  while (i < n && x[i] != value) ++i;
  return i;
}

}  // namespace

MUSTER_SIMD_CLONES
LossSums SoftmaxCrossEntropy(int64_t B, int64_t C, const float* logits, const int32_t* labels,
                             float* dlogits) {
  LossSums sums;
  for (int64_t b = 0; b < B; ++b) {
    const float* x = logits + b * C;
    const int32_t label = labels[b];
    const float maximum = Maximum(C, x);
    const float sum = SumOfExp(C, x, maximum);
    // A NaN logit is passed over by Maximum, but not by the sum.
    sums.loss += std::log(static_cast<double>(sum)) + (double{maximum} - x[label]);
    if (sum == sum && FirstEqual(C, x, maximum) == label) ++sums.correct;
    float* dx = dlogits + b * C;
    WriteSoftmax(C, x, maximum, sum, dx);
    dx[label] -= 1.0f;
  }
  return sums;
}

MUSTER_SIMD_CLONES
void Softmax(int64_t B, int64_t C, const float* logits, float* probabilities) {
  for (int64_t b = 0; b < B; ++b) {
    const float* x = logits + b * C;
    const float maximum = Maximum(C, x);
    WriteSoftmax(C, x, maximum, SumOfExp(C, x, maximum), probabilities + b * C);
  }
}

LossSums LogisticCrossEntropy(int64_t B, const float* logits, const int32_t* labels, float* scores,
                              float* dlogits) {
  LossSums sums;
  for (int64_t b = 0; b < B; ++b) {
    const double x = logits[b];
    const double y = labels[b];
    // exp of what is at most 0 cannot overflow.
    const double e = std::exp(-std::fabs(x));
    const double positive = x < 0 ? 0 : x;  // NaN passes.
    const double score = (x > 0 ? 1.0 : e) / (1.0 + e);
    sums.loss += positive - x * y + std::log1p(e);
    if (x == x && (x > 0) == (labels[b] == 1)) ++sums.correct;
    scores[b] = static_cast<float>(score);
    dlogits[b] = static_cast<float>(score - y);
  }
  return sums;
}

}  // namespace muster
