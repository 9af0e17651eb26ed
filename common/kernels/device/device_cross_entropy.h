#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_CROSS_ENTROPY_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_CROSS_ENTROPY_H_

#include <cstdint>

#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// common/kernels/transformer/cross_entropy_rows.h on a device: of some rows of logits the loss, and
// their gradient in place. Probabilities are not stored.
struct DeviceCrossEntropyShape {
  int64_t rows = 0;
  // Columns of logits and gradient.
  int64_t vocabulary = 0;
  // Columns that are tokens; those behind, padding, have no probability and gradient 0. 0: all.
  int64_t tokens = 0;
  // Elements from one row to the next; 0: vocabulary.
  int64_t logits_stride = 0;
  int64_t gradient_stride = 0;
};

// Sums in device memory, all f64 so that one all-reduce adds them over ranks.
struct DeviceHeadSums {
  double loss = 0;
  double tokens = 0;
  double correct = 0;
};

struct DeviceCrossEntropyArrays {
  // f32, bf16 or f16.
  DType logits_type = DType::kF32;
  const void* logits = nullptr;
  // [rows], each in [0, tokens) or -1: no loss and a gradient of zeros.
  const int32_t* labels = nullptr;
  DType gradient_type = DType::kF32;
  // gradient_scale · (softmax - onehot); null: not made. It may be the logits' memory if each row
  // begins where its logits do and its type is not wider.
  void* gradient = nullptr;
  // In device memory, such as the loss scale of f16; null: 1.
  const float* gradient_scale = nullptr;
  // [rows] each: row's loss, 0 without a label; whether the largest logit is the label's, 1 or 0,
  // -1 without a label. Not null.
  float* losses = nullptr;
  int32_t* correct = nullptr;
  // Added to, in the rows' order. Null: not.
  DeviceHeadSums* sums = nullptr;
};

void DeviceCrossEntropy(DeviceStream& stream, const DeviceCrossEntropyShape& shape,
                        const DeviceCrossEntropyArrays& arrays);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_CROSS_ENTROPY_H_
