#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ACTIVATION_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ACTIVATION_H_

#include <cstdint>

#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// common/kernels/transformer/activation.h on a device; aliasing as there. Types: f32, bf16, f16.
void DeviceGelu(DeviceStream& stream, DType type, int64_t n, const void* x, void* y);
void DeviceGeluBackward(DeviceStream& stream, DType type, int64_t n, const void* x, const void* dy,
                        void* dx);
void DeviceSwiGlu(DeviceStream& stream, DType type, int64_t rows, int64_t F, const void* gate_up,
                  void* y);
void DeviceSwiGluBackward(DeviceStream& stream, DType type, int64_t rows, int64_t F,
                          const void* gate_up, const void* dy, void* d_gate_up);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ACTIVATION_H_
