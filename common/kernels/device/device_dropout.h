#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_DROPOUT_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_DROPOUT_H_

#include <cstdint>

#include "common/kernels/transformer/dropout.h"

namespace muster {

class DeviceStream;

// What changes from launch to launch of a captured graph: lies in device memory and is read when
// the kernel runs.
struct DropoutClock {
  uint64_t clock = 0;
  // Global index of the first example of the arrays.
  uint64_t first_example = 0;
};

// A DropoutMask for kernels: common/kernels/transformer/dropout.h says which elements are dropped,
// here as there, bit for bit.
struct DeviceDropout {
  uint64_t key = 0;
  uint32_t threshold = 0;
  float scale = 1;
  // Null: nothing is dropped.
  const DropoutClock* clock = nullptr;
};

// The mask's clock is not used; that in device memory is.
inline DeviceDropout DropoutOnDevice(const DropoutMask& mask, const DropoutClock* clock) {
  return {mask.key, mask.threshold, mask.scale, clock};
}

// y = x · factor for `examples` examples of `size` elements, dense; example i has the global index
// first_example + i. y may be x. Backward is the same on gradients.
// REQUIRES: dropout.clock is not null.
void DeviceDropoutForward(DeviceStream& stream, const DeviceDropout& dropout, int64_t examples,
                          int64_t size, const float* x, float* y);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_DROPOUT_H_
