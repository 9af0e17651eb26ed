#ifndef MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_DEVICE_ATTENTION_H_
#define MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_DEVICE_ATTENTION_H_

#include <cstddef>
#include <cstdint>

#include "common/kernels/device/device_sizes.h"
#include "common/kernels/transformer/attention.h"
#include "common/kernels/transformer/op_arrays.h"
#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// common/kernels/transformer/attention.h on a device: shapes, layouts and meaning are those there.
// bf16 and f16 multiply on tensor cores with f32 sums (probabilities and their gradients are
// rounded to the type before the second products), f32 in f32. The same bits every time: no
// atomics.

// Whether the kernels take it: D at most 256. 16-bit types reach tensor cores where D and the
// strides are multiples of 8 and the arrays aligned to 16 bytes; else they are computed as f32 is.
bool DeviceAttentionTakes(const AttentionShape& shape);

// Shared memory that a block of forward or backward takes at most, of arrays aligned to 16 bytes.
// sm_86, sm_89 and sm_120 offer 99 KiB, which heads of more than 64 elements exceed in f32, of more
// than 128 in 16 bits. REQUIRES: DeviceAttentionTakes.
size_t DeviceAttentionSharedBytes(const AttentionShape& shape, DType type);

// logsumexp [B, H, T] may be null. REQUIRES: DeviceAttentionTakes, scale not below 0, a device that
// offers DeviceAttentionSharedBytes.
void DeviceAttention(DeviceStream& stream, const AttentionShape& shape, DType type, const void* qkv,
                     void* out, float* logsumexp, const OpDropout& dropout = {});

// dqkv is not qkv. Writes all of dqkv's heads. `scratch` has DeviceAttentionBackwardScratch(B · T,
// H) floats; `dropout` is forward's. REQUIRES: as forward.
void DeviceAttentionBackward(DeviceStream& stream, const AttentionShape& shape, DType type,
                             const void* qkv, const void* out, const float* logsumexp,
                             const void* dout, void* dqkv, float* scratch,
                             const OpDropout& dropout = {});

// Attention by parts, as AttentionOfPart, AttentionDelta and AttentionPartBackward of
// common/compute/ops.h: for every type in f32, without tensor cores. REQUIRES: as forward, except
// that a block takes DeviceAttentionSharedBytes of f32.
void DeviceAttentionOfPart(DeviceStream& stream, const AttentionShape& shape,
                           const AttentionPart& part, DType type,
                           const AttentionPartArrays& arrays);
void DeviceAttentionDelta(DeviceStream& stream, const AttentionShape& shape, int64_t rows,
                          DType type, const void* out, const void* dout, float* delta);
void DeviceAttentionPartBackward(DeviceStream& stream, const AttentionShape& shape,
                                 const AttentionPart& part, DType type,
                                 const AttentionPartGradientArrays& arrays);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_DEVICE_ATTENTION_H_
