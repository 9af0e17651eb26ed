#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_HEAD_NORM_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_HEAD_NORM_H_

#include <cstddef>
#include <cstdint>

#include "common/kernels/device/device_sizes.h"
#include "common/kernels/transformer/head_norm.h"
#include "common/kernels/transformer/op_arrays.h"
#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// HeadNorm and HeadNormBackward of common/compute/ops.h on a device. The same bits every time: no
// atomics. `scratch` has DeviceHeadNormBackwardScratch(rows, width) floats.
void DeviceHeadNorm(DeviceStream& stream, const HeadNormShape& shape, DType type,
                    const HeadNormArrays& arrays);
void DeviceHeadNormBackward(DeviceStream& stream, const HeadNormShape& shape, DType type,
                            const HeadNormGradientArrays& arrays, float* scratch);

// Returns the shared memory that a block of forward or backward takes at most.
size_t DeviceHeadNormSharedBytes(int64_t width);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_HEAD_NORM_H_
