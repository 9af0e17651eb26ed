#ifndef MUSTER_COMMON_TENSOR_HALF_H_
#define MUSTER_COMMON_TENSOR_HALF_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"

namespace muster {

// Between arrays of f32 and arrays of 16-bit floating point, as their bits, of any alignment.
// `type` is kBf16 (the range of f32, 8 bits of precision) or kF16 (at most 65504, 11 bits of
// precision). Vector code by run-time choice; the same bits on every instruction set. REQUIRES for
// all: equal sizes, arrays that do not overlap.

// To the nearest, halves to even; what is past the largest number becomes an infinity; infinities
// stay, NaNs stay NaNs (quiet).
void RoundToHalf(DType type, absl::Span<const float> values, uint16_t* bits);

// Exact. `bits` are 2 * values.size() bytes.
void WidenHalf(DType type, const std::byte* bits, absl::Span<float> values);

// values[i] += what bits[i] mean.
void AddHalf(DType type, const std::byte* bits, absl::Span<float> values);

// Rounding with error feedback (Seide et al. 2014, "1-Bit Stochastic Gradient Descent", §3.1, for
// any quantiser):
//
//   v = values[i] + residual[i];  bits[i] = v rounded;  residual[i] = v - what bits[i] mean
//
// so that what is sent over many calls sums to what was given, but for the last residual. Rounded
// as RoundToHalf does, except that a finite v past the largest number is sent as that number: the
// excess stays in the residual. Where v is an infinity or a NaN it is sent, and the residual
// becomes 0.
void RoundWithResidual(DType type, absl::Span<const float> values, float* residual, uint16_t* bits);

// Stochastic rounding: to one of the two neighbours, to each with the probability that makes the
// mean exact (but for f16 below 2^-37, which become 0). The random bits are a pure function of
// `seed` and i. A finite value past the largest number becomes that number; infinities and NaNs
// stay.
void RoundStochastically(DType type, absl::Span<const float> values, uint64_t seed, uint16_t* bits);

}  // namespace muster

#endif  // MUSTER_COMMON_TENSOR_HALF_H_
