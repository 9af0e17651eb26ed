#include "common/tensor/half_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// GCC 12 takes the undefined vectors in its own intrinsics for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace muster {

#if defined(__x86_64__)
namespace {

// Sixteen elements at a time; the last few under a mask, so that every element takes the same way.
#define MUSTER_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

constexpr uint32_t kLanes = 16;

// The lanes of the elements from i on.
MUSTER_AVX512 inline __mmask16 LanesFrom(size_t i, size_t n) {
  return n - i >= kLanes ? 0xffff : static_cast<__mmask16>((1u << (n - i)) - 1);
}

MUSTER_AVX512 inline __m512i Bits(uint32_t bits) {
  return _mm512_set1_epi32(static_cast<int>(bits));
}

MUSTER_AVX512 inline __m512i Magnitude(__m512 v) {
  return _mm512_and_si512(_mm512_castps_si512(v), Bits(0x7fffffff));
}

// Where v is neither an infinity nor a NaN.
MUSTER_AVX512 inline __mmask16 Finite(__m512 v) {
  return _mm512_cmplt_epu32_mask(Magnitude(v), Bits(0x7f800000));
}

struct Bf16 {
  static constexpr uint16_t kInfinity = 0x7f80;

  MUSTER_AVX512 static __m256i Round(__m512 v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i upper = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(upper, Bits(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, Bits(0x7fff))), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, upper, Bits(0x40)));
  }
  MUSTER_AVX512 static __m512 Widen(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  MUSTER_AVX512 static __m512i RoundMagnitude(__m512i magnitude, __m512i random) {
    return _mm512_srli_epi32(_mm512_add_epi32(magnitude, _mm512_and_si512(random, Bits(0xffff))),
                             16);
  }
};

struct F16 {
  static constexpr uint16_t kInfinity = 0x7c00;

  MUSTER_AVX512 static __m256i Round(__m512 v) {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  MUSTER_AVX512 static __m512 Widen(__m256i bits) { return _mm512_cvtph_ps(bits); }
  MUSTER_AVX512 static __m512i RoundMagnitude(__m512i magnitude, __m512i random) {
    random = _mm512_and_si512(random, Bits(0x1fff));
    const __m512i limited = _mm512_min_epu32(magnitude, Bits(0x47800000));
    const __m512i normal = _mm512_srli_epi32(
        _mm512_sub_epi32(_mm512_add_epi32(limited, random), Bits(112u << 23)), 13);
    const __mmask16 is_small = _mm512_cmplt_epu32_mask(limited, Bits(0x38800000));
    const __m512 tiny = _mm512_maskz_mov_ps(is_small, _mm512_castsi512_ps(limited));
    const __m512i units = _mm512_cvttps_epi32(_mm512_mul_ps(tiny, _mm512_set1_ps(0x1p37f)));
    const __m512i small = _mm512_srli_epi32(_mm512_add_epi32(units, random), 13);
    return _mm512_mask_mov_epi32(normal, is_small, small);
  }
};

template <typename Half>
MUSTER_AVX512 void RoundLoop(size_t n, const float* values, uint16_t* bits) {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = LanesFrom(i, n);
    const __m512 v = _mm512_maskz_loadu_ps(lanes, values + i);
    _mm256_mask_storeu_epi16(bits + i, lanes, Half::Round(v));
  }
}

template <typename Half>
MUSTER_AVX512 void WidenLoop(size_t n, const std::byte* bits, float* values) {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = LanesFrom(i, n);
    const __m256i half = _mm256_maskz_loadu_epi16(lanes, bits + i * sizeof(uint16_t));
    _mm512_mask_storeu_ps(values + i, lanes, Half::Widen(half));
  }
}

template <typename Half>
MUSTER_AVX512 void AddLoop(size_t n, const std::byte* bits, float* values) {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = LanesFrom(i, n);
    const __m256i half = _mm256_maskz_loadu_epi16(lanes, bits + i * sizeof(uint16_t));
    const __m512 sum = _mm512_maskz_loadu_ps(lanes, values + i);
    _mm512_mask_storeu_ps(values + i, lanes, _mm512_add_ps(sum, Half::Widen(half)));
  }
}

template <typename Half>
MUSTER_AVX512 void ResidualLoop(size_t n, const float* values, float* residual, uint16_t* bits) {
  const __m256i infinity = _mm256_set1_epi16(Half::kInfinity);
  const __m256i magnitude = _mm256_set1_epi16(0x7fff);
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = LanesFrom(i, n);
    const __m512 v = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, values + i),
                                   _mm512_maskz_loadu_ps(lanes, residual + i));
    const __mmask16 finite = Finite(v);
    const __m256i nearest = Half::Round(v);
    const __mmask16 overflows =
        _mm256_mask_cmpeq_epi16_mask(finite, _mm256_and_si256(nearest, magnitude), infinity);
    const __m256i sent = _mm256_mask_sub_epi16(nearest, overflows, nearest, _mm256_set1_epi16(1));
    _mm256_mask_storeu_epi16(bits + i, lanes, sent);
    _mm512_mask_storeu_ps(residual + i, lanes, _mm512_maskz_sub_ps(finite, v, Half::Widen(sent)));
  }
}

template <typename Half>
MUSTER_AVX512 void StochasticLoop(size_t n, const float* values, uint32_t seed_low,
                                  uint32_t seed_high, uint16_t* bits) {
  const __m512i step = Bits(uint32_t{kLanes} * 0x9e3779b9u);
  __m512i counter = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  counter = _mm512_add_epi32(_mm512_mullo_epi32(counter, Bits(0x9e3779b9u)), Bits(seed_low));
  for (size_t i = 0; i < n; i += kLanes) {
    __m512i x = counter;
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)), Bits(0x85ebca6bu));
    x = _mm512_xor_si512(x, Bits(seed_high));
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 13)), Bits(0xc2b2ae35u));
    x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
    counter = _mm512_add_epi32(counter, step);

    const __mmask16 lanes = LanesFrom(i, n);
    const __m512 v = _mm512_maskz_loadu_ps(lanes, values + i);
    const __m512i near =
        _mm512_min_epu32(Half::RoundMagnitude(Magnitude(v), x), Bits(Half::kInfinity - 1));
    const __m512i sign =
        _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(v), 16), Bits(0x8000));
    const __m256i result = _mm512_cvtepi32_epi16(_mm512_or_si512(near, sign));
    _mm256_mask_storeu_epi16(bits + i, lanes,
                             _mm256_mask_mov_epi16(Half::Round(v), Finite(v), result));
  }
}

#undef MUSTER_AVX512

template <typename Half>
constexpr HalfKernels kKernels = {RoundLoop<Half>, WidenLoop<Half>, AddLoop<Half>,
                                  ResidualLoop<Half>, StochasticLoop<Half>};

}  // namespace

const HalfKernels* Avx512HalfKernels(DType type) {
  static const bool present =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!present) return nullptr;
  return type == DType::kBf16 ? &kKernels<Bf16> : &kKernels<F16>;
}

#else

const HalfKernels* Avx512HalfKernels(DType) { return nullptr; }

#endif

}  // namespace muster
