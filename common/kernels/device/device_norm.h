#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_NORM_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_NORM_H_

#include <cstdint>

#include "common/kernels/device/device_dropout.h"
#include "common/kernels/device/device_sizes.h"
#include "common/kernels/transformer/norm.h"
#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// common/kernels/transformer/norm.h on a device: shapes and meaning are those there.
//   sum = x + dropout(branch);  out = norm(sum) · gain + bias
// `type` is of the branch and of the norm's output: f32, bf16 or f16; all else is f32. The same
// bits every time: no atomics.
struct DeviceNormInputs {
  const float* x = nullptr;
  // Null for none: sum = x.
  const void* branch = nullptr;
  DeviceDropout dropout;
  // Rows of one example of dropout.
  int64_t rows_per_example = 1;
  const float* gain = nullptr;
  const float* bias = nullptr;
};

struct DeviceNormOutputs {
  // Null where there is no branch. May be x.
  float* sum = nullptr;
  // May be the branch.
  void* out = nullptr;
  // [rows] each; may be null. mean is not used for kRmsNorm.
  float* mean = nullptr;
  float* rstd = nullptr;
};

void DeviceNorm(DeviceStream& stream, const NormShape& shape, DType type,
                const DeviceNormInputs& in, const DeviceNormOutputs& out);

struct DeviceNormBackwardInputs {
  const float* sum = nullptr;
  const float* gain = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const void* dout = nullptr;
  // Null for none.
  const float* dsum = nullptr;
  // Forward's, for dbranch.
  DeviceDropout dropout;
  int64_t rows_per_example = 1;
};

struct DeviceNormGradients {
  // May be dsum.
  float* dx = nullptr;
  // Null for none. May be dout.
  void* dbranch = nullptr;
  // [width] each, added to. A null bias is not made.
  float* gain = nullptr;
  float* bias = nullptr;
};

// Shared memory that a block of forward or backward takes at most.
size_t DeviceNormSharedBytes(int64_t width);

// `scratch` has DeviceNormBackwardScratch(rows, width) floats.
void DeviceNormBackward(DeviceStream& stream, const NormShape& shape, DType type,
                        const DeviceNormBackwardInputs& in, const DeviceNormGradients& gradients,
                        float* scratch);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_NORM_H_
