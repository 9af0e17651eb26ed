#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_DROPOUT_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_DROPOUT_H_

#include <cstdint>

#include "common/kernels/transformer/op_arrays.h"

namespace muster {

class DeviceStream;

// y = x · factor for `elements` elements of dense examples of `size` each (DropoutShape).
// common/kernels/transformer/dropout.h says which elements are dropped, here as there, bit for bit.
// y may be x. Backward is the same on gradients.
// REQUIRES: dropout.clock is not null.
void DeviceDropoutForward(DeviceStream& stream, const OpDropout& dropout, int64_t elements,
                          int64_t size, const float* x, float* y);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_DROPOUT_H_
