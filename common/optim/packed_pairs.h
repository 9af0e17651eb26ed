#ifndef MUSTER_COMMON_OPTIM_PACKED_PAIRS_H_
#define MUSTER_COMMON_OPTIM_PACKED_PAIRS_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/tensor/bfloat16.h"

namespace muster {

// Two arrays of bf16 in one of floats: element i of the first is the lower half of float i's bits,
// that of the second the upper half.

// Writes elements of array `half`, 0 or 1, as f32. `pairs` and `values` are of equal size.
inline void PairHalf(int half, absl::Span<const float> pairs, absl::Span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(pairs[i]);
    values[i] = ToFloat(BFloat16{static_cast<uint16_t>(half == 0 ? bits : bits >> 16)});
  }
}

// Writes `values` into array `half`, rounded to the nearest bf16.
inline void SetPairHalf(int half, absl::Span<const float> values, absl::Span<float> pairs) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t rounded = ToBFloat16(values[i]).bits;
    const uint32_t other = std::bit_cast<uint32_t>(pairs[i]);
    pairs[i] = std::bit_cast<float>(half == 0 ? (other & 0xffff0000u) | rounded
                                              : (other & 0x0000ffffu) | (rounded << 16));
  }
}

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_PACKED_PAIRS_H_
