#ifndef MUSTER_WORKER_NN_TRANSFORMER_ADAPTERS_PARALLEL_LINEAR_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ADAPTERS_PARALLEL_LINEAR_H_

#include <cstdint>

#include "worker/nn/transformer/adapters/block_adapters.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"

namespace muster {

// A block's linear layers, of which tensor ranks, if there are several, have a part each. Those
// whose outputs they divide read all rows and leave all rows; those whose inputs they divide end
// with a sum over ranks (tensor_rows.h). `block` is BlockScratch::gathered.

// Returns a layer of the context's rows.
Linear LinearOf(const ComputeContext& context, int64_t in, int64_t out);

// Returns all rows of x, T [n, width], of which each rank has its own.
const void* AllRowsOf(const ComputeContext& context, int64_t width, const void* own, void* block);

void LinearForward(Ops& ops, const Linear& linear, const LinearWeights& weights, const void* x,
                   void* y);

// Make the own rows of a product, with what its adapters add, whose input columns, or those of its
// gradient's, ranks divide.
void RowParallelLinear(const ComputeContext& context, const Linear& linear,
                       const LinearWeights& weights, const LayerAdapters& adapters, const void* x,
                       void* own, void* block);
void RowParallelLinearInput(const ComputeContext& context, const Linear& linear, const void* weight,
                            const LayerAdapters& adapters, const void* dy, void* own, void* block);

// Leave the gradients of a layer's weights of all rows; none that are null. The latter two do so
// unless they are made apart (ComputeContext::split_backward): while dy and x are in caches.
// `own_x` are the own rows of a layer whose outputs ranks divide. ColumnWeightsAtOnce leaves those
// of its adapters in either case.
void LinearBackwardWeights(const ComputeContext& context, const Linear& linear, const void* dy,
                           const void* x, const LayerGradients& gradients);
void BackwardWeightsAtOnce(const ComputeContext& context, const Linear& linear, const void* dy,
                           const void* x, const LayerGradients& gradients);
void ColumnWeightsAtOnce(const ComputeContext& context, const Linear& linear, const void* dy,
                         const void* own_x, void* block, const LayerGradients& gradients,
                         const LayerAdapters& adapters);

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ADAPTERS_PARALLEL_LINEAR_H_
