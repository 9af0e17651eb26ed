#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_CROSS_ENTROPY_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_CROSS_ENTROPY_H_

#include <cstdint>

#include "common/kernels/transformer/op_arrays.h"
#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// CrossEntropy of common/compute/ops.h on a device: the gradient's rows have the logits' distance
// in bytes. Probabilities are not stored; sums are added in the rows' order. `losses` and
// `correct`, [rows] each, take every row's loss, 0 without a label, and whether its largest logit
// is the label's, 1 or 0, -1 without a label.
void DeviceCrossEntropy(DeviceStream& stream, const CrossEntropyShape& shape, DType type,
                        const CrossEntropyArrays& arrays, float* losses, int32_t* correct);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_CROSS_ENTROPY_H_
