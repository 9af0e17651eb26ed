#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_NORM_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_NORM_H_

#include <cstdint>

#include "common/kernels/device/device_sizes.h"
#include "common/kernels/transformer/norm.h"
#include "common/kernels/transformer/op_arrays.h"
#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// Norm and NormBackward of common/compute/ops.h on a device. The same bits every time: no atomics.
// Besides what op_arrays.h says, `mean` and `rstd` of forward may be null.
void DeviceNorm(DeviceStream& stream, const NormShape& shape, DType type, const OpNormInputs& in,
                const OpNormOutputs& out);

// Shared memory that a block of forward or backward takes at most.
size_t DeviceNormSharedBytes(int64_t width);

// `scratch` has DeviceNormBackwardScratch(rows, width) floats.
void DeviceNormBackward(DeviceStream& stream, const NormShape& shape, DType type,
                        const OpNormBackwardInputs& in, const OpNormGradients& gradients,
                        float* scratch);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_NORM_H_
