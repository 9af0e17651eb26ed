#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ROTARY_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ROTARY_H_

#include "common/kernels/transformer/rotary.h"
#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// common/kernels/transformer/rotary.h on a device, in place. `table` is FillRotaryTable's, in
// device memory.
void DeviceRotary(DeviceStream& stream, const RotaryShape& shape, DType type, const float* table,
                  void* x);
void DeviceRotaryBackward(DeviceStream& stream, const RotaryShape& shape, DType type,
                          const float* table, void* dx);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ROTARY_H_
