#ifndef MUSTER_COMMON_KERNELS_DEVICE_DROPOUT_FACTORS_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DROPOUT_FACTORS_H_

#include <cstdint>

#include "common/kernels/device/simt/elements.h"
#include "common/kernels/device/simt/simt.h"
#include "common/kernels/transformer/op_arrays.h"

namespace muster {

// Which of elements [8 · eight, 8 · eight + 8) of the generator's `example` are kept: a bit each.
MUSTER_DEVICE uint8_t KeptOf8(const OpDropout& dropout, uint64_t example, uint64_t eight) {
  uint32_t words[4];
  PhiloxBlock(dropout.key, dropout.clock->clock << 32 | eight, example, words);
  uint32_t kept = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t drawn = i % 2 == 0 ? words[i / 2] & 0xffff : words[i / 2] >> 16;
    kept |= (drawn < dropout.threshold ? 0u : 1u) << i;
  }
  return static_cast<uint8_t>(kept);
}

// What elements [begin, begin + N) of an example are multiplied by; N 8 and begin a multiple of it,
// or N 1. `example` counts from the arrays' first.
template <int N>
MUSTER_DEVICE void DropoutFactorsOf(const OpDropout& dropout, uint64_t example, int64_t begin,
                                    float (&factors)[N]) {
  static_assert(N == 8 || N == 1);
  const uint32_t kept =
      KeptOf8(dropout, dropout.clock->first_example + example, static_cast<uint64_t>(begin / 8));
#pragma unroll
  for (int i = 0; i < N; ++i) {
    factors[i] = kept >> (begin + i) % 8 & 1 ? dropout.scale : 0.0f;
  }
}

// The same for elements [i, i + N) of arrays of examples of `size`, which lie in one of a share's
// runs.
template <int N>
MUSTER_DEVICE void DropoutFactorsAt(const OpDropout& dropout, int64_t size, int64_t i,
                                    float (&factors)[N]) {
  const Place run = PlaceOf(dropout.first_element + i, dropout.share.Run(size));
  const ExampleElement place = PlaceInExample(dropout.share, size, run.row, run.column);
  DropoutFactorsOf<N>(dropout, place.example, place.element, factors);
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DROPOUT_FACTORS_H_
