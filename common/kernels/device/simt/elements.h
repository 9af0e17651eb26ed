#ifndef MUSTER_COMMON_KERNELS_DEVICE_SIMT_ELEMENTS_H_
#define MUSTER_COMMON_KERNELS_DEVICE_SIMT_ELEMENTS_H_

#include <cstdint>

#include "common/kernels/device/simt/simt.h"

namespace muster {

// Element-wise work, bounded by memory: a thread does eight neighbouring elements, by 16-byte loads
// where the arrays allow it. Op::Do<N>(i) does elements [i, i + N) with N 8 or 1.
template <typename Op>
struct ElementsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = Op::kName;
  static constexpr int kPack = 8;

  int64_t n;
  // Whether all eights are aligned, and lie in one row where Op has rows.
  bool packed;
  Op op;

  MUSTER_DEVICE void Run() const {
    const int64_t i = (static_cast<int64_t>(BlockX()) * kThreads + ThreadIndex()) * kPack;
    if (i >= n) return;
    if (packed && i + kPack <= n) {
      op.template Do<kPack>(i);
    } else {
      const int64_t end = Min64(i + kPack, n);
      for (int64_t j = i; j < end; ++j) op.template Do<1>(j);
    }
  }
};

template <typename Op>
void ForElements(DeviceStream& stream, int64_t n, bool packed, const Op& op) {
  using Kernel = ElementsKernel<Op>;
  Launch(stream, {.x = CeilDiv(n, Kernel::kThreads * Kernel::kPack)}, 0, Kernel{n, packed, op});
}

// i / d and i % d, by 32-bit division where that is enough: it takes a quarter of the time.
struct Place {
  int64_t row;
  int64_t column;
};
MUSTER_DEVICE Place PlaceOf(int64_t i, int64_t d) {
  if (((i | d) >> 32) == 0) {
    const uint32_t row = static_cast<uint32_t>(i) / static_cast<uint32_t>(d);
    return {row, i - row * d};
  }
  return {i / d, i % d};
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_SIMT_ELEMENTS_H_
