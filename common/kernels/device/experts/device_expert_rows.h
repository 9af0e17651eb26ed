#ifndef MUSTER_COMMON_KERNELS_DEVICE_EXPERTS_DEVICE_EXPERT_ROWS_H_
#define MUSTER_COMMON_KERNELS_DEVICE_EXPERTS_DEVICE_EXPERT_ROWS_H_

#include <cstdint>

#include "common/kernels/moe/expert_arrays.h"

namespace muster {

class DeviceStream;

// common/kernels/moe/expert_rows.h and expert_activation.h on a device. Types: f32, bf16, f16.
void DeviceOrderHostedRows(DeviceStream& stream, const HostedRowsShape& shape,
                           const int32_t* rank_offsets, int32_t* offsets, int32_t* numbers);
void DeviceGatherRows(DeviceStream& stream, const TokenRowsShape& shape, const void* x,
                      const int32_t* assignments, void* rows);
void DeviceCombineRows(DeviceStream& stream, const TokenRowsShape& shape,
                       const CombineArrays& arrays);
void DeviceGateRows(DeviceStream& stream, const TokenRowsShape& shape,
                    const GateRowsArrays& arrays);
void DeviceGateRowsBackward(DeviceStream& stream, const TokenRowsShape& shape,
                            const GateRowsGradientArrays& arrays);
void DeviceActivateExperts(DeviceStream& stream, const ExpertActivation& activation,
                           const ExpertActivationArrays& arrays);
void DeviceActivateExpertsBackward(DeviceStream& stream, const ExpertActivation& activation,
                                   const ExpertActivationGradientArrays& arrays);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_EXPERTS_DEVICE_EXPERT_ROWS_H_
