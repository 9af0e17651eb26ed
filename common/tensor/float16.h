#ifndef MUSTER_COMMON_TENSOR_FLOAT16_H_
#define MUSTER_COMMON_TENSOR_FLOAT16_H_

#include <cstdint>

#include "common/base/machine/simd_clones.h"

namespace muster {

// Conversions between f32 and the bits of 16-bit floating point; conversions to 16 bits round to
// nearest even. They have no branches, so that loops over them become vector code, and are always
// inlined, so that each instruction set gets its own code. NaNs stay NaNs (quiet), with the upper
// bits of their payload, as the F16C instructions do it.

MUSTER_ALWAYS_INLINE float F32OfBits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

MUSTER_ALWAYS_INLINE uint32_t BitsOfF32(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

MUSTER_ALWAYS_INLINE float F32OfBf16(uint16_t bits) {
  return F32OfBits(static_cast<uint32_t>(bits) << 16);
}

MUSTER_ALWAYS_INLINE uint16_t Bf16OfF32(float value) {
  const uint32_t bits = BitsOfF32(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>(value != value ? nan : rounded);
}

MUSTER_ALWAYS_INLINE float F32OfF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  // Exponents' biases are 112 apart; the largest exponent (infinity, NaN) goes to the largest.
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t infinite =
      (magnitude << 13) + (224u << 23) + (magnitude > 0x7c00 && magnitude < 0x7e00 ? 0x400000 : 0);
  // Without an exponent, units of 2^-24.
  const uint32_t small = BitsOfF32(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t finite = magnitude < 0x0400 ? small : normal;
  return F32OfBits(sign | (magnitude >= 0x7c00 ? infinite : finite));
}

MUSTER_ALWAYS_INLINE uint16_t F16OfF32(float value) {
  const uint32_t bits = BitsOfF32(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
  // Adding 0.5 leaves units of 2^-24, rounded, in the lowest bits.
  const uint32_t small = BitsOfF32(F32OfBits(magnitude) + 0.5f) - BitsOfF32(0.5f);
  const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  uint32_t result = magnitude < 0x38800000 ? small : normal;
  // From 65520, halfway between the largest number and the next power of two.
  result = magnitude >= 0x477ff000 ? 0x7c00 : result;
  result = magnitude > 0x7f800000 ? nan : result;
  return static_cast<uint16_t>(sign | result);
}

// IEEE binary16, as the element type of DType::kF16 arrays. For storage only; arithmetic is done in
// f32. At most 65504; 11 bits of precision down to 2^-14, fewer down to 2^-24. Trivial; zero when
// value-initialised.
struct Float16 {
  uint16_t bits;

  friend bool operator==(Float16 a, Float16 b) { return a.bits == b.bits; }
};
static_assert(sizeof(Float16) == 2);

// Exact.
MUSTER_ALWAYS_INLINE float ToFloat(Float16 value) { return F32OfF16(value.bits); }

// Rounds to nearest, ties to even; an infinity past the largest number. NaNs stay NaNs, made quiet.
MUSTER_ALWAYS_INLINE Float16 ToFloat16(float value) { return {F16OfF32(value)}; }

MUSTER_ALWAYS_INLINE void StoreRounded(float value, Float16* to) { *to = ToFloat16(value); }

}  // namespace muster

#endif  // MUSTER_COMMON_TENSOR_FLOAT16_H_
