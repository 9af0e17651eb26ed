#ifndef MUSTER_COMMON_KERNELS_DEVICE_DROPOUT_FACTORS_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DROPOUT_FACTORS_H_

#include <cstdint>

#include "common/kernels/device/device_dropout.h"
#include "common/kernels/device/simt.h"

namespace muster {

// What elements [begin, begin + N) of an example are multiplied by; N 8 and begin a multiple of it,
// or N 1. `example` counts from the arrays' first.
template <int N>
MUSTER_DEVICE void DropoutFactorsOf(const DeviceDropout& dropout, uint64_t example, int64_t begin,
                                    float (&factors)[N]) {
  static_assert(N == 8 || N == 1);
  uint32_t words[4];
  PhiloxBlock(dropout.key, dropout.clock->clock << 32 | static_cast<uint64_t>(begin / 8),
              dropout.clock->first_example + example, words);
  factors[0] = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = i % 2 == 0 ? words[i / 2] & 0xffff : words[i / 2] >> 16;
    const float factor = bits < dropout.threshold ? 0.0f : dropout.scale;
    if constexpr (N == 8) {
      factors[i] = factor;
    } else if (i == static_cast<int>(begin % 8)) {
      factors[0] = factor;
    }
  }
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DROPOUT_FACTORS_H_
