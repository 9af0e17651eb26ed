#include "worker/nn/transformer/adapters/parallel_linear.h"

#include "worker/nn/transformer/arrays/tensor_rows.h"

namespace muster {

Linear LinearOf(const ComputeContext& context, int64_t in, int64_t out) {
  return {.type = context.type, .rows = context.rows.count(), .in = in, .out = out};
}

const void* AllRowsOf(const ComputeContext& context, int64_t width, const void* own, void* block) {
  return AllRows(context, context.type, width, own, block);
}

void LinearForward(Ops& ops, const Linear& linear, const LinearWeights& weights, const void* x,
                   void* y) {
  ops.LinearForward(linear, {.x = x, .weight = weights.weight, .bias = weights.bias, .y = y});
}

void RowParallelLinear(const ComputeContext& context, const Linear& linear,
                       const LinearWeights& weights, const LayerAdapters& adapters, const void* x,
                       void* own, void* block) {
  void* const summands = SummandRows(context, own, block);
  LinearForward(context.ops, linear, weights, x, summands);
  adapters.AddForward(context, x, summands);
  SumRows(context, context.type, linear.out, own, block);
}

void RowParallelLinearInput(const ComputeContext& context, const Linear& linear, const void* weight,
                            const LayerAdapters& adapters, const void* dy, void* own, void* block) {
  void* const summands = SummandRows(context, own, block);
  context.ops.LinearBackwardInput(linear, dy, weight, summands);
  adapters.AddInputGradient(context, dy, summands);
  SumRows(context, context.type, linear.in, own, block);
}

void LinearBackwardWeights(const ComputeContext& context, const Linear& linear, const void* dy,
                           const void* x, const LayerGradients& gradients) {
  if (gradients.weight == nullptr && gradients.bias == nullptr) return;
  context.ops.LinearBackwardWeights(linear, {.dy = dy,
                                             .x = x,
                                             .accumulation = context.gradients,
                                             .weight = gradients.weight,
                                             .bias = gradients.bias});
}

void BackwardWeightsAtOnce(const ComputeContext& context, const Linear& linear, const void* dy,
                           const void* x, const LayerGradients& gradients) {
  if (!context.split_backward) LinearBackwardWeights(context, linear, dy, x, gradients);
}

void ColumnWeightsAtOnce(const ComputeContext& context, const Linear& linear, const void* dy,
                         const void* own_x, void* block, const LayerGradients& gradients,
                         const LayerAdapters& adapters) {
  if (context.split_backward && !adapters.exist()) return;
  const void* const x = AllRowsOf(context, linear.in, own_x, block);
  if (!context.split_backward) LinearBackwardWeights(context, linear, dy, x, gradients);
  adapters.BackwardWeights(context, x, dy);
}

}  // namespace muster
