#ifndef MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TENSOR_ROWS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TENSOR_ROWS_H_

#include <cstdint>

#include "common/tensor/dtype.h"
#include "worker/nn/transformer/arrays/compute_context.h"

namespace muster {

// What ranks of a tensor group do between a norm, which has the rank's own rows, and the products
// around attention and the activation function, which have all rows of the rank's own columns
// (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022). Each
// is the other's gradient. Without a group they do nothing; without sequence parallelism every rank
// has all rows, so there is only the sum. `block` is memory of BlockScratch::gathered's size.

// Returns all rows, [N, width], of which this rank has its own in `own`: gathered in `block`, or
// `own` itself.
const void* AllRows(const ComputeContext& context, DType type, int64_t width, const void* own,
                    void* block);

// Returns where this rank's summands of all rows, [N, width], are to be made: `block`, or `own`.
void* SummandRows(const ComputeContext& context, void* own, void* block);

// own = the sums of its own rows over all ranks, whose summands lie where SummandRows says.
void SumRows(const ComputeContext& context, DType type, int64_t width, void* own, void* block);

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TENSOR_ROWS_H_
