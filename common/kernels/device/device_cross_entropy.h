#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_CROSS_ENTROPY_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_CROSS_ENTROPY_H_

#include <cstdint>

#include "common/kernels/transformer/op_arrays.h"
#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// Scratch memory of a cross entropy, [rows] each: every row's loss, 0 without a label; and whether
// its largest logit is the label's, 1 or 0, -1 without a label.
struct RowLosses {
  float* losses = nullptr;
  int32_t* correct = nullptr;
};

// CrossEntropy of common/compute/ops.h on a device, and its two sweeps where ranks divide the
// vocabulary: the gradient's rows have the logits' distance in bytes. Probabilities are not stored;
// sums are added in the rows' order.
void DeviceCrossEntropy(DeviceStream& stream, const CrossEntropyShape& shape, DType type,
                        const CrossEntropyArrays& arrays, const RowLosses& rows);
void DeviceSoftmaxParts(DeviceStream& stream, const VocabularyShareShape& shape,
                        const float* logits, const int32_t* labels, SoftmaxPart* parts);
void DeviceCrossEntropyOfParts(DeviceStream& stream, const VocabularyShareShape& shape, DType type,
                               const VocabularyShareArrays& arrays, const RowLosses& rows);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_CROSS_ENTROPY_H_
