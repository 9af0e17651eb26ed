#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_VEC16_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_VEC16_H_

#include <cstdint>

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

#include "common/base/machine/simd_clones.h"
#include "common/tensor/bfloat16.h"

// Sixteen f32 as one value, for the loops that vector_kernels_*.cc compile once per instruction set
// (one, two or four registers). Everything is inlined into those files. Memory is of any alignment.

namespace muster {

using Vec16 = float __attribute__((vector_size(64)));
using Int16x32 = int32_t __attribute__((vector_size(64)));
using Uint16x32 = uint32_t __attribute__((vector_size(64)));
using Uint16x16 = uint16_t __attribute__((vector_size(32)));
using Uint8x64 = uint64_t __attribute__((vector_size(64)));

constexpr int64_t kVec16 = 16;

MUSTER_ALWAYS_INLINE Vec16 Splat(float value) { return value - Vec16{}; }

MUSTER_ALWAYS_INLINE Vec16 Load16(const float* from) {
  Vec16 value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

MUSTER_ALWAYS_INLINE Vec16 Load16(const BFloat16* from) {
  Uint16x16 bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return reinterpret_cast<Vec16>(__builtin_convertvector(bits, Uint16x32) << 16);
}

MUSTER_ALWAYS_INLINE void Store16(Vec16 value, float* to) {
  __builtin_memcpy(to, &value, sizeof(value));
}

// To nearest even, NaNs made quiet: as ToBFloat16.
MUSTER_ALWAYS_INLINE void Store16(Vec16 value, BFloat16* to) {
  const Uint16x32 bits = reinterpret_cast<Uint16x32>(value);
  const Uint16x32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Uint16x32 nan = reinterpret_cast<Uint16x32>(value != value);
  const Uint16x16 narrow =
      __builtin_convertvector((rounded & ~nan) | (((bits >> 16) | 0x40) & nan), Uint16x16);
  __builtin_memcpy(to, &narrow, sizeof(narrow));
}

// The conversion instructions give what ToFloat and ToFloat16 do, NaNs' bits included.
MUSTER_ALWAYS_INLINE Vec16 Load16(const Float16* from) {
#if defined(__AVX512F__)
  __m256i bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  // Through the masked form: GCC 12 warns of the undefined vector in the plain one.
  return static_cast<Vec16>(_mm512_maskz_cvtph_ps(0xffff, bits));
#elif defined(__F16C__)
  __m128i bits[2];
  __builtin_memcpy(bits, from, sizeof(bits));
  const __m256 halves[2] = {_mm256_cvtph_ps(bits[0]), _mm256_cvtph_ps(bits[1])};
  Vec16 value;
  __builtin_memcpy(&value, halves, sizeof(value));
  return value;
#else
  float values[kVec16];
  for (int i = 0; i < kVec16; ++i) values[i] = ToFloat(from[i]);
  return Load16(values);
#endif
}

MUSTER_ALWAYS_INLINE void Store16(Vec16 value, Float16* to) {
#if defined(__AVX512F__)
  const __m256i bits = _mm512_maskz_cvtps_ph(0xffff, static_cast<__m512>(value),
                                             _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __builtin_memcpy(to, &bits, sizeof(bits));
#elif defined(__F16C__)
  __m256 halves[2];
  __builtin_memcpy(halves, &value, sizeof(halves));
  const __m128i bits[2] = {_mm256_cvtps_ph(halves[0], _MM_FROUND_TO_NEAREST_INT),
                           _mm256_cvtps_ph(halves[1], _MM_FROUND_TO_NEAREST_INT)};
  __builtin_memcpy(to, bits, sizeof(bits));
#else
  float values[kVec16];
  Store16(value, values);
  for (int i = 0; i < kVec16; ++i) StoreRounded(values[i], to + i);
#endif
}

// The first `count` < 16 elements; the others are 0.
template <typename T>
MUSTER_ALWAYS_INLINE Vec16 LoadSome(const T* from, int64_t count) {
  T elements[kVec16] = {};
  for (int64_t i = 0; i < count; ++i) elements[i] = from[i];
  return Load16(elements);
}

template <typename T>
MUSTER_ALWAYS_INLINE void StoreSome(Vec16 value, int64_t count, T* to) {
  T elements[kVec16];
  Store16(value, elements);
  for (int64_t i = 0; i < count; ++i) to[i] = elements[i];
}

// Calls f(i, 16) for i = 0, 16, … and, where n is no multiple of 16, f(the rest's start, its
// length).
template <typename F>
MUSTER_ALWAYS_INLINE void ForVec16(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kVec16 <= n; i += kVec16) f(i, kVec16);
  if (i < n) f(i, n - i);
}

// Of a whole vector or of the rest of an array, as ForVec16 asks.
template <typename T>
MUSTER_ALWAYS_INLINE Vec16 LoadUpTo(const T* from, int64_t count) {
  return count == kVec16 ? Load16(from) : LoadSome(from, count);
}

template <typename T>
MUSTER_ALWAYS_INLINE void StoreUpTo(Vec16 value, int64_t count, T* to) {
  count == kVec16 ? Store16(value, to) : StoreSome(value, count, to);
}

// a where `mask` (a comparison's result) holds, else b.
MUSTER_ALWAYS_INLINE Vec16 Select(Int16x32 mask, Vec16 a, Vec16 b) { return mask ? a : b; }

// In each lane, the product of a's low 32 bits and b.
MUSTER_ALWAYS_INLINE Uint8x64 MultiplyLowHalves(Uint8x64 a, uint32_t b) {
#if defined(__AVX512F__)
  const __m512i factor = reinterpret_cast<__m512i>(Uint8x64{} + b);
  return reinterpret_cast<Uint8x64>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), factor));
#elif defined(__AVX2__)
  const __m256i factor = _mm256_set1_epi64x(b);
  __m256i halves[2];
  __builtin_memcpy(halves, &a, sizeof(halves));
  for (__m256i& half : halves) half = _mm256_mul_epu32(half, factor);
  __builtin_memcpy(&a, halves, sizeof(halves));
  return a;
#else
  return (a & 0xffffffff) * b;
#endif
}

// Holds in the first `count` lanes.
MUSTER_ALWAYS_INLINE Int16x32 FirstLanes(int64_t count) {
  const Int16x32 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < static_cast<int32_t>(count);
}

// The larger, and the smaller; b where either is a NaN.
MUSTER_ALWAYS_INLINE Vec16 Max16(Vec16 a, Vec16 b) {
#if defined(__AVX512F__)
  return static_cast<Vec16>(_mm512_max_ps(a, b));
#else
  return Select(a > b, a, b);
#endif
}
MUSTER_ALWAYS_INLINE Vec16 Min16(Vec16 a, Vec16 b) {
#if defined(__AVX512F__)
  return static_cast<Vec16>(_mm512_min_ps(a, b));
#else
  return Select(a < b, a, b);
#endif
}

// By halves: one order for every instruction set.
MUSTER_ALWAYS_INLINE float Sum16(Vec16 value) {
  float lanes[kVec16];
  Store16(value, lanes);
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Elements are not NaN.
MUSTER_ALWAYS_INLINE float MaxOf16(Vec16 value) {
  float lanes[kVec16];
  Store16(value, lanes);
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
    }
  }
  return lanes[0];
}

// e^x within 2 units in the last place, for x in [-87.33, 88.37] or NaN.
//
// e^x = 2^n · e^r with n = round(x / ln 2), |r| <= ln 2 / 2 by a two-part ln 2, and e^r = 1 + r +
// r² · p(r), p being the minimax polynomial of degree 4, whose relative error is 2^-28.
MUSTER_ALWAYS_INLINE Vec16 ExpInRange16(Vec16 x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  // Added and taken away again, leaves the nearest integer; its last bits are that integer's.
  constexpr float kRound = 12582912.0f;
  const Vec16 shifted = x * kLog2E + kRound;
  const Vec16 n = shifted - kRound;
  const Vec16 r = (x - n * kLn2High) - n * kLn2Low;
  Vec16 p = r * 0.0013814602280035615f + 0.008368715643882751f;
  p = p * r + 0.04166838899254799f;
  p = p * r + 0.1666652113199234f;
  p = p * r + 0.4999999403953552f;
  const Vec16 e = (p * (r * r) + r) + 1.0f;
#if defined(__AVX512F__)
  return static_cast<Vec16>(_mm512_scalef_ps(e, n));
#else
  return e *
         reinterpret_cast<Vec16>((reinterpret_cast<Int16x32>(shifted) - (0x4b400000 - 127)) << 23);
#endif
}

// e^x within 2 units in the last place where the result is a normal number. 0 below ln of the
// smallest one (-87.33), infinity above ln of the largest, NaN for NaN.
MUSTER_ALWAYS_INLINE Vec16 Exp16(Vec16 x) {
  constexpr float kLowest = -87.33654f;
  const Vec16 above = Max16(Splat(kLowest), x);
#if defined(__AVX512F__)
  const Vec16 result = ExpInRange16(Min16(Splat(89.0f), above));
#else
  // 2^128 is no number: from some way below on, e^(x - 2) · e².
  const Int16x32 large = x > Splat(88.0f);
  const Vec16 lowered = Select(large, above - 2.0f, above);
  const Vec16 part = ExpInRange16(Min16(Splat(88.0f), lowered));
  const Vec16 result = Select(large, part * 7.38905609893065f, part);
#endif
  return Select(x < Splat(kLowest), Vec16{}, result);
}

// 1 / x, for x in [1, 2^120], or NaN.
MUSTER_ALWAYS_INLINE Vec16 Reciprocal16(Vec16 x) {
#if defined(__AVX512F__)
  // 14 bits, doubled by a Newton step.
  const Vec16 guess = static_cast<Vec16>(_mm512_rcp14_ps(x));
  return guess + guess * (1.0f - x * guess);
#else
  return 1.0f / x;
#endif
}

// 1 / (1 + e^-x), and e^-x · that in `complement`: both without cancellation.
MUSTER_ALWAYS_INLINE Vec16 Sigmoid16(Vec16 x, Vec16* complement) {
  const Vec16 e = ExpInRange16(-Max16(Splat(-80.0f), Min16(Splat(80.0f), x)));
  const Vec16 sigmoid = Reciprocal16(1.0f + e);
  *complement = e * sigmoid;
  return sigmoid;
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_VEC16_H_
