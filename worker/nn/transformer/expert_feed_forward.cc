#include "worker/nn/transformer/expert_feed_forward.h"

#include <cstdint>

#include "worker/nn/context_group.h"
#include "worker/nn/tensor_group.h"
#include "worker/nn/transformer/parallel_linear.h"

namespace muster {
namespace {

// Returns a context in which this rank is alone with its own rows.
ComputeContext OwnRows(const ComputeContext& context) {
  ComputeContext own = context;
  own.rows = {.sequences = 1, .length = context.own_rows()};
  own.group = nullptr;
  own.context_group = nullptr;
  return own;
}

// Makes the products of each row with the weights of a router or a gate.
void MakeScores(const ComputeContext& own, const Linear& linear, const void* x, const void* weight,
                float* logits) {
  own.ops.LinearForward(
      linear, {.x = x, .weight = weight, .result = LinearForwardArrays::Result::kF32, .y = logits});
}

}  // namespace

ExpertFeedForward::ExpertFeedForward(const TransformerShape& shape, int64_t layer)
    : shape_(shape),
      experts_(shape.experts),
      layer_(layer),
      shared_(shape, shape.experts.shared_width) {}

RouterShape ExpertFeedForward::Router(const ComputeContext& own) const {
  return {.tokens = own.rows.count(),
          .experts = experts_.experts,
          .top_k = experts_.top_k,
          .scores = experts_.scores,
          .normalize = experts_.normalize,
          .scaling = experts_.scaling,
          .groups = experts_.groups,
          .top_groups = experts_.top_groups};
}

CountedTokens ExpertFeedForward::Counted(const ComputeContext& context) const {
  const TokenRows& rows = context.rows;
  const bool together = experts_.counts_together;
  return {.labels = context.labels == nullptr ? nullptr : context.labels + context.first_row(),
          .first = context.first_row(),
          .run = together ? rows.count() : rows.length,
          .runs = together ? 1 : rows.sequences};
}

TokenRowsShape ExpertFeedForward::Rows(const ComputeContext& own) const {
  return {
      .type = own.type, .tokens = own.rows.count(), .top_k = experts_.top_k, .width = shape_.width};
}

ExpertLinear ExpertFeedForward::Up(const ComputeContext& own) const {
  return {.type = own.type,
          .experts = experts_.experts,
          .rows = Router(own).rows(),
          .in = shape_.width,
          .out = shape_.UpWidth(experts_.width)};
}

ExpertLinear ExpertFeedForward::Down(const ComputeContext& own) const {
  return {.type = own.type,
          .experts = experts_.experts,
          .rows = Router(own).rows(),
          .in = experts_.width,
          .out = shape_.width};
}

ExpertActivation ExpertFeedForward::Activation(const ComputeContext& own) const {
  return {.type = own.type,
          .rows = Router(own).rows(),
          .F = experts_.width,
          .gated = shape_.activation == TransformerShape::Activation::kSwiGlu};
}

DenseArrays ExpertFeedForward::Shared(const BlockActivations& activations) const {
  return {.in = activations.norm2_out, .up = activations.up, .activated = activations.activated};
}

void ExpertFeedForward::Route(const ComputeContext& own, const BlockWeights& weights,
                              const BlockActivations& activations) const {
  const ExpertActivations& experts = activations.experts;
  const RouterShape router = Router(own);
  MakeScores(own, LinearOf(own, shape_.width, experts_.experts), activations.norm2_out,
             weights.experts.router, experts.logits);
  ExpertOps& ops = own.ops.experts();
  ops.Route(router, {.logits = experts.logits,
                     .bias = weights.experts.router_bias,
                     .chosen = experts.chosen,
                     .weights = experts.weights});
  ops.OrderRows(router, experts.chosen, experts.rows);
}

void ExpertFeedForward::Count(const ComputeContext& context, const ComputeContext& own,
                              const BlockActivations& activations) const {
  float* const counts = activations.experts.counts;
  if (counts == nullptr || context.pass != Pass::kTraining) return;
  const CountedTokens counted = Counted(context);
  const int64_t numbers = counted.runs * experts_.experts;
  if (own.rows.count() > 0) {
    own.ops.experts().CountChosen(Router(own), activations.experts.chosen, counted, counts);
  } else {
    own.ops.Zero(numbers, counts);
  }
  if (context.divides_rows()) context.group->Sum(DType::kF32, numbers, counts);
  if (context.context_group != nullptr) context.context_group->Sum(DType::kF32, numbers, counts);
}

void ExpertFeedForward::Gather(const ComputeContext& own, const BlockActivations& activations,
                               const void* x, const BlockScratch& scratch) const {
  own.ops.experts().GatherRows(Rows(own), x, activations.experts.rows.assignments,
                               scratch.expert_rows);
}

void ExpertFeedForward::MakeActivated(const ComputeContext& own, const BlockWeights& weights,
                                      const BlockActivations& activations,
                                      const BlockScratch& scratch) const {
  const ExpertActivations& experts = activations.experts;
  Gather(own, activations, activations.norm2_out, scratch);
  own.ops.experts().Linear(Up(own), experts.rows.offsets, scratch.expert_rows, weights.experts.up,
                           experts.up);
  Activate(own, activations);
  if (experts_.shared_width > 0) shared_.MakeActivated(own, weights.up, Shared(activations));
}

void ExpertFeedForward::Activate(const ComputeContext& own,
                                 const BlockActivations& activations) const {
  const ExpertActivations& experts = activations.experts;
  own.ops.experts().Activate(Activation(own), {.x = experts.up,
                                               .assignments = experts.rows.assignments,
                                               .weights = experts.weights,
                                               .y = experts.activated});
}

void ExpertFeedForward::MakeGated(const ComputeContext& own, const BlockWeights& weights,
                                  const BlockActivations& activations) const {
  MakeScores(own, LinearOf(own, shape_.width, 1), activations.norm2_out,
             weights.experts.shared_gate, activations.experts.gate_logits);
  shared_.MakeOut(own, weights.down, Shared(activations), activations.experts.shared);
}

void ExpertFeedForward::Forward(const ComputeContext& context, const BlockWeights& weights,
                                const BlockActivations& activations, const BlockScratch& scratch,
                                void* branch) const {
  const ComputeContext own = OwnRows(context);
  const ExpertActivations& experts = activations.experts;
  const bool has_rows = own.rows.count() > 0;
  if (has_rows) Route(own, weights, activations);
  Count(context, own, activations);
  if (!has_rows) return;
  MakeActivated(own, weights, activations, scratch);
  ExpertOps& ops = own.ops.experts();
  ops.Linear(Down(own), experts.rows.offsets, experts.activated, weights.experts.down,
             scratch.expert_rows);
  CombineArrays combined = {
      .rows = scratch.expert_rows, .places = experts.rows.places, .out = branch};
  if (experts_.shared_width > 0) {
    combined.bases[0] = branch;
    if (experts_.shared_gate) {
      MakeGated(own, weights, activations);
      ops.GateRows(Rows(own), {.logits = experts.gate_logits, .x = experts.shared, .y = branch});
    } else {
      shared_.MakeOut(own, weights.down, Shared(activations), branch);
    }
  }
  ops.CombineRows(Rows(own), combined);
}

void ExpertFeedForward::RecomputeActivations(Recompute recompute, const ComputeContext& context,
                                             const BlockWeights& weights,
                                             const BlockActivations& activations,
                                             const BlockScratch& scratch) const {
  const ComputeContext own = OwnRows(context);
  if (recompute == Recompute::kNone || own.rows.count() == 0) return;
  if (recompute == Recompute::kFull) {
    Route(own, weights, activations);
    MakeActivated(own, weights, activations, scratch);
    if (experts_.shared_gate) MakeGated(own, weights, activations);
    return;
  }
  Activate(own, activations);
  if (experts_.shared_width > 0) shared_.Activate(own, Shared(activations));
}

void ExpertFeedForward::ZeroGradients(const ComputeContext& own,
                                      const BlockGradients& gradients) const {
  if (own.gradients != Accumulation::kWrite) return;
  const int64_t C = shape_.width, E = experts_.experts, F = experts_.width;
  own.ops.Zero(E * C, gradients.experts.router);
  own.ops.Zero(E * shape_.UpWidth(F) * C, gradients.experts.up);
  own.ops.Zero(E * C * F, gradients.experts.down);
  if (experts_.shared_width == 0) return;
  own.ops.Zero(shape_.UpWidth(experts_.shared_width) * C, gradients.up.weight);
  own.ops.Zero(C * experts_.shared_width, gradients.down.weight);
  if (experts_.shared_gate) own.ops.Zero(C, gradients.experts.shared_gate);
}

const void* ExpertFeedForward::SharedGradient(const BlockActivations& activations,
                                              const void* dout) const {
  return experts_.shared_gate ? activations.experts.shared : dout;
}

void ExpertFeedForward::BackwardShared(const ComputeContext& own, const BlockWeights& weights,
                                       const BlockActivations& activations,
                                       const ExpertBackwardArrays& arrays,
                                       const BlockGradients& gradients) const {
  const ExpertActivations& experts = activations.experts;
  if (experts_.shared_gate) {
    own.ops.experts().GateRowsBackward(Rows(own), {.logits = experts.gate_logits,
                                                   .x = experts.shared,
                                                   .dy = arrays.dout,
                                                   .dx = experts.shared,
                                                   .dlogits = arrays.products.shared_gate});
  }
  shared_.Backward(own, weights.up, weights.down, Shared(activations),
                   {.dout = SharedGradient(activations, arrays.dout),
                    .inner = arrays.scratch.inner,
                    .dup = arrays.products.up,
                    .din = arrays.scratch.shared_gradient},
                   gradients.up, gradients.down);
}

void ExpertFeedForward::BackwardDownWeights(const ComputeContext& own,
                                            const BlockActivations& activations,
                                            const BlockScratch& scratch,
                                            const BlockGradients& gradients) const {
  own.ops.experts().LinearBackwardWeights(Down(own), activations.experts.rows.offsets,
                                          {.dy = scratch.expert_rows,
                                           .x = activations.experts.activated,
                                           .accumulation = own.gradients,
                                           .weight = gradients.experts.down});
}

void ExpertFeedForward::BackwardUpWeights(const ComputeContext& own,
                                          const BlockActivations& activations,
                                          const BlockProductGradients& products,
                                          const BlockScratch& scratch,
                                          const BlockGradients& gradients) const {
  own.ops.experts().LinearBackwardWeights(Up(own), activations.experts.rows.offsets,
                                          {.dy = products.expert_up,
                                           .x = scratch.expert_rows,
                                           .accumulation = own.gradients,
                                           .weight = gradients.experts.up});
}

void ExpertFeedForward::BackwardRouterWeights(const ComputeContext& own,
                                              const BlockActivations& activations,
                                              const BlockProductGradients& products,
                                              const BlockGradients& gradients) const {
  LinearBackwardWeights(own, LinearOf(own, shape_.width, experts_.experts), products.router,
                        activations.norm2_out, {.weight = gradients.experts.router});
  if (!experts_.shared_gate) return;
  LinearBackwardWeights(own, LinearOf(own, shape_.width, 1), products.shared_gate,
                        activations.norm2_out, {.weight = gradients.experts.shared_gate});
}

void ExpertFeedForward::Backward(const ComputeContext& context, const BlockWeights& weights,
                                 const BlockActivations& activations,
                                 const ExpertBackwardArrays& arrays,
                                 const BlockGradients& gradients) const {
  const ComputeContext own = OwnRows(context);
  const ExpertActivations& experts = activations.experts;
  // Ranks that share out tokens have the same counts.
  if (gradients.experts.router_bias != nullptr) {
    own.ops.experts().LoadDirection(experts_.experts, {.runs = Counted(context).runs,
                                                       .counts = experts.counts,
                                                       .accumulation = own.gradients,
                                                       .direction = gradients.experts.router_bias});
  }
  if (own.rows.count() == 0) {
    if (!own.split_backward) ZeroGradients(own, gradients);
    return;
  }
  if (own.expert_loads != nullptr) {
    own.ops.experts().AddLoads(experts_.experts, experts.rows.offsets,
                               own.expert_loads + layer_ * experts_.experts);
  }
  const BlockProductGradients& products = arrays.products;
  const BlockScratch& scratch = arrays.scratch;
  const bool at_once = !own.split_backward;
  ExpertOps& ops = own.ops.experts();
  if (experts_.shared_width > 0) BackwardShared(own, weights, activations, arrays, gradients);

  Gather(own, activations, arrays.dout, scratch);
  if (at_once) BackwardDownWeights(own, activations, scratch, gradients);
  ops.LinearBackwardInput(Down(own), experts.rows.offsets, scratch.expert_rows,
                          weights.experts.down, scratch.inner);
  ops.ActivateBackward(Activation(own), {.x = experts.up,
                                         .assignments = experts.rows.assignments,
                                         .weights = experts.weights,
                                         .dy = scratch.inner,
                                         .dx = products.expert_up,
                                         .dweights = scratch.weights_gradient});
  ops.RouteBackward(Router(own), own.type,
                    {.logits = experts.logits,
                     .chosen = experts.chosen,
                     .dweights = scratch.weights_gradient,
                     .counted = Counted(context),
                     .counts = experts.counts,
                     .auxiliary = experts_.auxiliary,
                     .z = experts_.z,
                     .gradient_scale = own.loss_scale,
                     .dlogits = products.router,
                     .sums = own.router_sums});
  if (at_once) {
    BackwardRouterWeights(own, activations, products, gradients);
    Gather(own, activations, activations.norm2_out, scratch);
    BackwardUpWeights(own, activations, products, scratch, gradients);
  }
  ops.LinearBackwardInput(Up(own), experts.rows.offsets, products.expert_up, weights.experts.up,
                          scratch.expert_rows);
  CombineArrays combined = {
      .rows = scratch.expert_rows, .places = experts.rows.places, .out = products.proj};
  own.ops.LinearBackwardInput(LinearOf(own, shape_.width, experts_.experts), products.router,
                              weights.experts.router, scratch.inner);
  combined.bases[0] = scratch.inner;
  if (experts_.shared_width > 0) combined.bases[1] = scratch.shared_gradient;
  if (experts_.shared_gate) {
    own.ops.LinearBackwardInput(LinearOf(own, shape_.width, 1), products.shared_gate,
                                weights.experts.shared_gate, products.proj);
    combined.bases[2] = products.proj;
  }
  ops.CombineRows(Rows(own), combined);
}

void ExpertFeedForward::BackwardWeights(const ComputeContext& context,
                                        const BlockActivations& activations, const void* dout,
                                        const BlockProductGradients& products,
                                        const BlockScratch& scratch,
                                        const BlockGradients& gradients) const {
  const ComputeContext own = OwnRows(context);
  if (own.rows.count() == 0) return ZeroGradients(own, gradients);
  Gather(own, activations, dout, scratch);
  BackwardDownWeights(own, activations, scratch, gradients);
  Gather(own, activations, activations.norm2_out, scratch);
  BackwardUpWeights(own, activations, products, scratch, gradients);
  BackwardRouterWeights(own, activations, products, gradients);
  if (experts_.shared_width == 0) return;
  shared_.BackwardWeights(own, Shared(activations), SharedGradient(activations, dout), products.up,
                          gradients.up, gradients.down);
}

}  // namespace muster
