#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_DROPOUT_LOOPS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_DROPOUT_LOOPS_H_

#include <cstdint>

#include "common/kernels/transformer/dropout.h"
#include "common/kernels/transformer/vec16.h"

// The loop of dropout.h. Included by vector_kernels_*.cc alone; see array_loops.h.

namespace muster {
namespace {

// Eight counters of a generator, or its words for them, one in the low half of each lane. The high
// halves hold anything: no low half depends on them.
struct PhiloxWords {
  Uint8x64 word[4];
};

// common/base/philox.h's ten rounds.
MUSTER_ALWAYS_INLINE void PhiloxRounds(uint64_t key, PhiloxWords& x) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Uint8x64 product0 = MultiplyLowHalves(x.word[0], 0xD2511F53);
    const Uint8x64 product1 = MultiplyLowHalves(x.word[2], 0xCD9E8D57);
    x = {{(product1 >> 32) ^ x.word[1] ^ key0, product1, (product0 >> 32) ^ x.word[3] ^ key1,
          product0}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

// Elements whose factors are made at a time.
constexpr int64_t kDropoutRun = 64;

// Of the 64 elements from 64 · i on.
MUSTER_ALWAYS_INLINE void Factors64(const DropoutMask& mask, uint64_t example, uint64_t i,
                                    float* factors) {
  const Uint8x64 lane = {0, 1, 2, 3, 4, 5, 6, 7};
  PhiloxWords x = {
      {lane + 8 * i, Uint8x64{} + mask.clock, Uint8x64{} + example, Uint8x64{} + (example >> 32)}};
  PhiloxRounds(mask.key, x);
  constexpr uint64_t kLow = 0xffffffff;
  // Elements 0 to 3 of each counter, and 4 to 7.
  const Uint8x64 low = (x.word[0] & kLow) | x.word[1] << 32;
  const Uint8x64 high = (x.word[2] & kLow) | x.word[3] << 32;
  const Uint8x64 halves[2] = {
      __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11),
      __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15),
  };
  Uint16x16 bits[4];
  static_assert(sizeof(bits) == sizeof(halves));
  __builtin_memcpy(bits, halves, sizeof(bits));
  for (int k = 0; k < 4; ++k) {
    const Int16x32 drawn = __builtin_convertvector(bits[k], Int16x32);
    const Int16x32 dropped = drawn < static_cast<int32_t>(mask.threshold);
    Store16(Select(dropped, Vec16{}, Splat(mask.scale)), factors + k * kVec16);
  }
}

void DropoutFactorsLoop(const DropoutMask& mask, uint64_t example, int64_t begin, int64_t count,
                        float* factors) {
  const int64_t end = begin + count;
  for (int64_t first = begin / kDropoutRun * kDropoutRun; first < end; first += kDropoutRun) {
    if (first >= begin && first + kDropoutRun <= end) {
      Factors64(mask, example, first / kDropoutRun, factors + (first - begin));
      continue;
    }
    float all[kDropoutRun];
    Factors64(mask, example, first / kDropoutRun, all);
    const int64_t from = first < begin ? begin - first : 0;
    const int64_t to = end - first < kDropoutRun ? end - first : kDropoutRun;
    for (int64_t i = from; i < to; ++i) factors[first - begin + i] = all[i];
  }
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_DROPOUT_LOOPS_H_
