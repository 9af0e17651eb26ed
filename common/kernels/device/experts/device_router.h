#ifndef MUSTER_COMMON_KERNELS_DEVICE_EXPERTS_DEVICE_ROUTER_H_
#define MUSTER_COMMON_KERNELS_DEVICE_EXPERTS_DEVICE_ROUTER_H_

#include <cstdint>

#include "common/kernels/device/device_sizes.h"
#include "common/kernels/moe/expert_arrays.h"
#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// common/kernels/moe/router.h, and the order of rows of expert_rows.h, on a device.
void DeviceRoute(DeviceStream& stream, const RouterShape& shape, const RouteArrays& arrays);
void DeviceCountChosen(DeviceStream& stream, const RouterShape& shape, const int32_t* chosen,
                       const CountedTokens& counted, float* counts);
void DeviceLimitChosen(DeviceStream& stream, const RouterShape& shape, const int32_t* chosen,
                       const ChoiceLimit& limit, int32_t* placed);
void DeviceLoadDirection(DeviceStream& stream, int64_t experts, const LoadDirectionArrays& arrays);
// loads [E] += the rows of each expert.
void DeviceAddLoads(DeviceStream& stream, int64_t experts, const int32_t* offsets, uint64_t* loads);
// `scratch`: DeviceRouteBackwardScratch floats, aligned to 8 bytes, where sums are made.
void DeviceRouteBackward(DeviceStream& stream, const RouterShape& shape, DType type,
                         const RouteBackwardArrays& arrays, float* scratch);
void DeviceOrderRows(DeviceStream& stream, const RouterShape& shape, const int32_t* chosen,
                     const ExpertRows& rows);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_EXPERTS_DEVICE_ROUTER_H_
