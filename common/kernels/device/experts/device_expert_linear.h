#ifndef MUSTER_COMMON_KERNELS_DEVICE_EXPERTS_DEVICE_EXPERT_LINEAR_H_
#define MUSTER_COMMON_KERNELS_DEVICE_EXPERTS_DEVICE_EXPERT_LINEAR_H_

#include <cstdint>

#include "common/kernels/moe/expert_arrays.h"

namespace muster {

class DeviceStream;

// common/kernels/moe/expert_linear.h on a device, in one launch for all experts, whose numbers of
// rows are in device memory. Products of 16 bits are by tensor cores where extents are multiples of
// eight and arrays aligned to 16 bytes, and by f32 otherwise; sums are f32. Types: f32, bf16, f16.
void DeviceExpertLinear(DeviceStream& stream, const ExpertLinear& linear, const int32_t* offsets,
                        const void* x, const void* weight, void* y);
void DeviceExpertLinearBackwardInput(DeviceStream& stream, const ExpertLinear& linear,
                                     const int32_t* offsets, const void* dy, const void* weight,
                                     void* dx);
void DeviceExpertLinearBackwardWeights(DeviceStream& stream, const ExpertLinear& linear,
                                       const int32_t* offsets,
                                       const ExpertLinearGradientArrays& arrays);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_EXPERTS_DEVICE_EXPERT_LINEAR_H_
