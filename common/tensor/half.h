#ifndef MUSTER_COMMON_TENSOR_HALF_H_
#define MUSTER_COMMON_TENSOR_HALF_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"

namespace muster {

// Conversions between arrays of f32 and arrays of the bits of 16-bit floating point, of any
// alignment. `type` is kBf16 (the range of f32, 8 bits of precision) or kF16 (at most 65504, 11
// bits of precision). The vector code is chosen at run time; results are the same bits on every
// instruction set. REQUIRES for all: sizes are equal, and arrays do not overlap.

// Rounds to nearest, halves to even. A value past the largest number becomes an infinity;
// infinities stay; NaNs stay NaNs (quiet).
void RoundToHalf(DType type, absl::Span<const float> values, uint16_t* bits);

// Converts exactly. `bits` are 2 * values.size() bytes.
void WidenHalf(DType type, const std::byte* bits, absl::Span<float> values);

// Adds the value of bits[i] to values[i].
void AddHalf(DType type, const std::byte* bits, absl::Span<float> values);

// Rounds with error feedback (Seide et al. 2014, "1-Bit Stochastic Gradient Descent", §3.1, for any
// quantiser):
//
//   v = values[i] + residual[i];  bits[i] = v rounded;  residual[i] = v - value of bits[i]
//
// so that the values sent over many calls add up to the values given, except for the last residual.
// Rounds as RoundToHalf does, except that a finite v past the largest number is sent as that
// number: the excess stays in the residual. If v is an infinity or a NaN, v is sent, and the
// residual becomes 0.
void RoundWithResidual(DType type, absl::Span<const float> values, float* residual, uint16_t* bits);

// Rounds stochastically: to one of the two neighbours, with the probabilities that make the mean
// exact (except for f16 below 2^-37, which becomes 0). The random bits are a pure function of
// `seed` and i. A finite value past the largest number becomes that number; infinities and NaNs
// stay.
void RoundStochastically(DType type, absl::Span<const float> values, uint64_t seed, uint16_t* bits);

}  // namespace muster

#endif  // MUSTER_COMMON_TENSOR_HALF_H_
