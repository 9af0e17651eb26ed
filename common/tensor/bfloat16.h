#ifndef MUSTER_COMMON_TENSOR_BFLOAT16_H_
#define MUSTER_COMMON_TENSOR_BFLOAT16_H_

#include <cstdint>

#include "common/tensor/float16.h"

namespace muster {

// The upper half of an f32, as the element type of DType::kBf16 arrays. For storage only;
// arithmetic is done in f32. Trivial; zero when value-initialised.
struct BFloat16 {
  uint16_t bits;

  friend bool operator==(BFloat16 a, BFloat16 b) { return a.bits == b.bits; }
};
static_assert(sizeof(BFloat16) == 2);

// Exact.
MUSTER_ALWAYS_INLINE float ToFloat(BFloat16 value) { return F32OfBf16(value.bits); }
MUSTER_ALWAYS_INLINE float ToFloat(float value) { return value; }

// Rounds to nearest, ties to even. NaNs stay NaNs, made quiet.
MUSTER_ALWAYS_INLINE BFloat16 ToBFloat16(float value) { return {Bf16OfF32(value)}; }

// Sets *to = value, rounded if `to` has fewer bits.
MUSTER_ALWAYS_INLINE void StoreRounded(float value, float* to) { *to = value; }
MUSTER_ALWAYS_INLINE void StoreRounded(float value, BFloat16* to) { *to = ToBFloat16(value); }

}  // namespace muster

#endif  // MUSTER_COMMON_TENSOR_BFLOAT16_H_
