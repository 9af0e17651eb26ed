#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_REDUCE_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_REDUCE_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "common/tensor/dtype.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// Arithmetic that NCCL does not do as Communicator promises it. Gives the same bits as ReduceInto
// (worker/collectives/reduce/reduce_kernels.h), the reference, except for the payload of NaNs.

// Queues out[i] = rows[i] ⊕ rows[stride + i] ⊕ rows[2 * stride + i] ⊕ … over `sources` rows in this
// order, for i < count; kAvg divides by `sources` at the end. f16 and bf16 in f32, rounded once.
// `out` may be the first row. REQUIRES: sources >= 1, pointers aligned to the type.
cudaError_t ReduceRowsOnDevice(DType dtype, Reduction reduction, const void* rows, size_t stride,
                               int sources, size_t count, void* out, cudaStream_t stream);

// Queues data[i] /= divisor for i < count; integers towards zero. REQUIRES: divisor >= 1, `data`
// aligned to the type.
cudaError_t DivideOnDevice(DType dtype, void* data, size_t count, int divisor, cudaStream_t stream);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_REDUCE_H_
