#include "worker/nn/transformer/feed_forward/expert_products.h"

namespace muster {

ExpertLinear ExpertProducts::Up(const ComputeContext& own, const RowsOfExperts& rows) const {
  return {.type = own.type, .experts = rows.experts, .rows = rows.rows, .in = C_, .out = U_};
}

ExpertLinear ExpertProducts::Out(const ComputeContext& own, const RowsOfExperts& rows) const {
  return {.type = own.type, .experts = rows.experts, .rows = rows.rows, .in = F_, .out = C_};
}

ExpertActivation ExpertProducts::Activation(const ComputeContext& own,
                                            const RowsOfExperts& rows) const {
  return {.type = own.type, .rows = rows.rows, .F = F_, .gated = gated_};
}

void ExpertProducts::MakeUp(const ComputeContext& own, const RowsOfExperts& rows, const void* x,
                            const void* weight, void* up) const {
  own.ops.experts().Linear(Up(own, rows), rows.offsets, x, weight, up);
}

void ExpertProducts::Activate(const ComputeContext& own, const RowsOfExperts& rows, const void* up,
                              void* activated) const {
  own.ops.experts().Activate(
      Activation(own, rows),
      {.x = up, .assignments = rows.assignments, .weights = rows.weights, .y = activated});
}

void ExpertProducts::MakeOut(const ComputeContext& own, const RowsOfExperts& rows,
                             const void* activated, const void* weight, void* out) const {
  own.ops.experts().Linear(Out(own, rows), rows.offsets, activated, weight, out);
}

void ExpertProducts::BackwardOutWeights(const ComputeContext& own, const RowsOfExperts& rows,
                                        const void* dout, const void* activated,
                                        Accumulation accumulation, float* weight) const {
  own.ops.experts().LinearBackwardWeights(
      Out(own, rows), rows.offsets,
      {.dy = dout, .x = activated, .accumulation = accumulation, .weight = weight});
}

void ExpertProducts::BackwardOut(const ComputeContext& own, const RowsOfExperts& rows,
                                 const void* dout, const void* weight, const void* up, void* inner,
                                 void* dup, float* dweights) const {
  own.ops.experts().LinearBackwardInput(Out(own, rows), rows.offsets, dout, weight, inner);
  own.ops.experts().ActivateBackward(Activation(own, rows), {.x = up,
                                                             .assignments = rows.assignments,
                                                             .weights = rows.weights,
                                                             .dy = inner,
                                                             .dx = dup,
                                                             .dweights = dweights});
}

void ExpertProducts::BackwardUpWeights(const ComputeContext& own, const RowsOfExperts& rows,
                                       const void* dup, const void* x, Accumulation accumulation,
                                       float* weight) const {
  own.ops.experts().LinearBackwardWeights(
      Up(own, rows), rows.offsets,
      {.dy = dup, .x = x, .accumulation = accumulation, .weight = weight});
}

void ExpertProducts::BackwardUp(const ComputeContext& own, const RowsOfExperts& rows,
                                const void* dup, const void* weight, void* dx) const {
  own.ops.experts().LinearBackwardInput(Up(own, rows), rows.offsets, dup, weight, dx);
}

}  // namespace muster
