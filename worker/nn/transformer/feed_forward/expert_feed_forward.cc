#include "worker/nn/transformer/feed_forward/expert_feed_forward.h"

#include <algorithm>
#include <cstdint>

#include "common/compute/context_ring.h"
#include "worker/nn/context_group.h"
#include "worker/nn/counting_group.h"
#include "worker/nn/tensor_group.h"
#include "worker/nn/transformer/adapters/parallel_linear.h"

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

// The own tokens of a data rank, as parts of all of its tokens in order (ExpertExtents::Parts):
// runs of neighbours, of which this rank may have some rows.
struct OwnParts {
  explicit OwnParts(const ComputeContext& context)
      : sequences(context.rows.sequences),
        context_ranks(context.context_group == nullptr ? 1 : context.context_group->size()),
        context_rank(context.context_group == nullptr ? 0 : context.context_group->rank()),
        row_ranks(context.divides_rows() ? context.group->size() : 1),
        row_rank(context.divides_rows() ? context.group->rank() : 0),
        runs(context_ranks == 1 ? 1 : 2 * sequences),
        run(context.rows.count() / std::max<int64_t>(1, runs)),
        first_row(context.first_row()) {}

  // Returns the number of a run's part.
  int64_t PartOf(int64_t number) const {
    if (context_ranks == 1) return row_rank;
    const auto half = static_cast<int>(number % 2);
    const int64_t chunk = number / 2 * 2 * context_ranks +
                          FirstOfChunk(context_ranks, context_rank, half, /*chunk=*/1);
    return chunk * row_ranks + row_rank;
  }
  // Returns where a run begins, counted from the first own row.
  int64_t Begin(int64_t number) const { return number * run - first_row; }

  const int64_t sequences;
  const int context_ranks;
  const int context_rank;
  const int row_ranks;
  const int row_rank;
  const int64_t runs;
  // The tokens of each run.
  const int64_t run;
  const int64_t first_row;
};

}  // namespace

ExpertFeedForward::ExpertFeedForward(const TransformerShape& shape, int64_t layer)
    : shape_(shape),
      experts_(shape.experts),
      extents_(shape.expert_extents()),
      layer_(layer),
      products_(shape),
      dispatched_(shape, layer),
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

RowsOfExperts ExpertFeedForward::OwnRowsOfExperts(const ComputeContext& own,
                                                  const BlockActivations& activations) const {
  const ExpertActivations& experts = activations.experts;
  return {.experts = experts_.experts,
          .rows = Router(own).rows(),
          .offsets = experts.rows.offsets,
          .assignments = experts.rows.assignments,
          .weights = experts.weights};
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
}

int64_t ExpertFeedForward::Parts(const ComputeContext& context) const {
  const OwnParts own(context);
  return static_cast<int64_t>(extents_.Parts(own.sequences, own.context_ranks, own.row_ranks));
}

void ExpertFeedForward::CountToLimit(const ComputeContext& context, const ComputeContext& own,
                                     const BlockActivations& activations) const {
  if (!drops(context)) return;
  const ExpertActivations& experts = activations.experts;
  const int64_t E = experts_.experts, parts = Parts(context);
  CountingGroup* const group = context.counting_group;
  const int64_t ranks = group == nullptr ? 1 : group->size();
  const int64_t rank = group == nullptr ? 0 : group->rank();
  float* const totals = experts.choices + parts * E;
  own.ops.Zero((parts + ranks) * E, experts.choices);
  if (own.rows.count() > 0) {
    ExpertOps& ops = own.ops.experts();
    const OwnParts mine(context);
    for (int64_t r = 0; r < mine.runs; ++r) {
      ops.CountChosen(Router(own), experts.chosen,
                      {.first = -mine.Begin(r), .run = mine.run, .runs = 1},
                      experts.choices + mine.PartOf(r) * E);
    }
    ops.CountChosen(Router(own), experts.chosen, {.run = own.rows.count(), .runs = 1},
                    totals + rank * E);
  }
  const int64_t numbers = (parts + ranks) * E;
  if (context.divides_rows()) context.group->Sum(DType::kF32, numbers, experts.choices);
  if (context.context_group != nullptr) {
    context.context_group->Sum(DType::kF32, numbers, experts.choices);
  }
  if (group != nullptr) group->Sum(ranks * E, totals);
}

void ExpertFeedForward::OrderRows(const ComputeContext& context, const ComputeContext& own,
                                  const BlockActivations& activations) const {
  const ExpertActivations& experts = activations.experts;
  ExpertOps& ops = own.ops.experts();
  RouterShape router = Router(own);
  if (!drops(context)) return ops.OrderRows(router, experts.chosen, experts.rows);
  const int64_t E = experts_.experts, rows = own.rows.count();
  CountingGroup* const group = context.counting_group;
  ChoiceLimit limit = {.factor = experts_.capacity,
                       .totals = experts.choices + Parts(context) * E,
                       .ranks = group == nullptr ? 1 : group->size(),
                       .rank = group == nullptr ? 0 : group->rank(),
                       .parts = experts.choices};
  const OwnParts mine(context);
  for (int64_t r = 0; r < mine.runs; ++r) {
    limit.first = std::clamp<int64_t>(mine.Begin(r), 0, rows);
    limit.end = std::clamp<int64_t>(mine.Begin(r + 1), 0, rows);
    limit.part = mine.PartOf(r);
    if (limit.first < limit.end) ops.LimitChosen(router, experts.chosen, limit, experts.placed);
  }
  router.experts = E + 1;
  ops.OrderRows(router, experts.placed, experts.rows);
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
  if (context.counting_group != nullptr && experts_.counts_of_all_ranks) {
    context.counting_group->Sum(numbers, counts);
  }
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
  const RowsOfExperts rows = OwnRowsOfExperts(own, activations);
  Gather(own, activations, activations.norm2_out, scratch);
  products_.MakeUp(own, rows, scratch.expert_rows, weights.experts.up, experts.up);
  products_.Activate(own, rows, experts.up, experts.activated);
}

void ExpertFeedForward::MakeShared(const ComputeContext& own, const BlockWeights& weights,
                                   const BlockActivations& activations, void* branch) const {
  if (experts_.shared_width == 0 || own.rows.count() == 0) return;
  shared_.MakeActivated(own, weights.up, Shared(activations));
  if (branch == nullptr && !experts_.shared_gate) return;
  if (!experts_.shared_gate) return shared_.MakeOut(own, weights.down, Shared(activations), branch);
  MakeScores(own, LinearOf(own, shape_.width, 1), activations.norm2_out,
             weights.experts.shared_gate, activations.experts.gate_logits);
  shared_.MakeOut(own, weights.down, Shared(activations), activations.experts.shared);
  if (branch == nullptr) return;
  own.ops.experts().GateRows(
      Rows(own),
      {.logits = activations.experts.gate_logits, .x = activations.experts.shared, .y = branch});
}

void ExpertFeedForward::Forward(const ComputeContext& context, const BlockWeights& weights,
                                const BlockActivations& activations, const BlockScratch& scratch,
                                void* branch) const {
  const ComputeContext own = OwnRows(context);
  const ExpertActivations& experts = activations.experts;
  const bool has_rows = own.rows.count() > 0;
  if (has_rows) Route(own, weights, activations);
  Count(context, own, activations);
  CountToLimit(context, own, activations);
  if (has_rows) OrderRows(context, own, activations);
  const auto make_shared = [=, this] { MakeShared(own, weights, activations, branch); };
  if (own.expert_group != nullptr) {
    dispatched_.Forward(own, weights, activations, scratch, make_shared);
  }
  if (!has_rows) return;
  if (own.expert_group == nullptr) {
    make_shared();
    MakeActivated(own, weights, activations, scratch);
    products_.MakeOut(own, OwnRowsOfExperts(own, activations), experts.activated,
                      weights.experts.down, scratch.expert_rows);
  }
  CombineArrays combined = {.rows = ResultRows(own, scratch),
                            .places = experts.rows.places,
                            .kept = Kept(context, activations),
                            .out = branch};
  if (experts_.shared_width > 0) combined.bases[0] = branch;
  own.ops.experts().CombineRows(Rows(own), combined);
}

void ExpertFeedForward::RecomputeActivations(Recompute recompute, const ComputeContext& context,
                                             const BlockWeights& weights,
                                             const BlockActivations& activations,
                                             const BlockScratch& scratch) const {
  const ComputeContext own = OwnRows(context);
  const bool dispatched = own.expert_group != nullptr;
  const bool has_rows = own.rows.count() > 0;
  if (recompute == Recompute::kNone || (!has_rows && !dispatched)) return;
  if (recompute == Recompute::kFull) {
    if (has_rows) {
      Route(own, weights, activations);
      OrderRows(context, own, activations);
    }
    if (dispatched) {
      dispatched_.Recompute(own, weights, activations, scratch);
    } else {
      MakeActivated(own, weights, activations, scratch);
    }
    return MakeShared(own, weights, activations, /*branch=*/nullptr);
  }
  if (dispatched) {
    dispatched_.Activate(own, activations, scratch);
  } else {
    products_.Activate(own, OwnRowsOfExperts(own, activations), activations.experts.up,
                       activations.experts.activated);
  }
  if (has_rows && experts_.shared_width > 0) shared_.Activate(own, Shared(activations));
}

const void* ExpertFeedForward::ResultRows(const ComputeContext& own,
                                          const BlockScratch& scratch) const {
  return own.expert_group == nullptr ? scratch.expert_rows : scratch.returned_rows;
}

void ExpertFeedForward::ZeroGradients(const ComputeContext& own,
                                      const BlockGradients& gradients) const {
  if (own.gradients != Accumulation::kWrite) return;
  const int64_t C = shape_.width, E = experts_.experts, F = experts_.width;
  own.ops.Zero(E * C, gradients.experts.router);
  // With expert ranks, tokens of others make the gradients of experts.
  if (own.expert_group == nullptr) {
    own.ops.Zero(E * shape_.UpWidth(F) * C, gradients.experts.up);
    own.ops.Zero(E * C * F, gradients.experts.down);
  }
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

void ExpertFeedForward::BackwardExperts(const ComputeContext& own, const BlockWeights& weights,
                                        const BlockActivations& activations,
                                        const ExpertBackwardArrays& arrays,
                                        const BlockGradients& gradients) const {
  const ExpertActivations& experts = activations.experts;
  const BlockScratch& scratch = arrays.scratch;
  void* const dup = arrays.products.expert_up;
  const RowsOfExperts rows = OwnRowsOfExperts(own, activations);
  Gather(own, activations, arrays.dout, scratch);
  if (!own.split_backward) {
    products_.BackwardOutWeights(own, rows, scratch.expert_rows, experts.activated, own.gradients,
                                 gradients.experts.down);
  }
  products_.BackwardOut(own, rows, scratch.expert_rows, weights.experts.down, experts.up,
                        scratch.inner, dup, scratch.weights_gradient);
  if (!own.split_backward) {
    Gather(own, activations, activations.norm2_out, scratch);
    products_.BackwardUpWeights(own, rows, dup, scratch.expert_rows, own.gradients,
                                gradients.experts.up);
  }
  products_.BackwardUp(own, rows, dup, weights.experts.up, scratch.expert_rows);
}

void ExpertFeedForward::Backward(const ComputeContext& context, const BlockWeights& weights,
                                 const BlockActivations& activations,
                                 const ExpertBackwardArrays& arrays,
                                 const BlockGradients& gradients) const {
  const ComputeContext own = OwnRows(context);
  const ExpertActivations& experts = activations.experts;
  const bool has_rows = own.rows.count() > 0;
  // Ranks that share out tokens have the same counts.
  if (gradients.experts.router_bias != nullptr) {
    own.ops.experts().LoadDirection(experts_.experts, {.runs = Counted(context).runs,
                                                       .counts = experts.counts,
                                                       .accumulation = own.gradients,
                                                       .direction = gradients.experts.router_bias});
  }
  if (!has_rows && !own.split_backward) ZeroGradients(own, gradients);
  const BlockProductGradients& products = arrays.products;
  const BlockScratch& scratch = arrays.scratch;
  const auto backward_shared = [=, this] {
    if (has_rows && experts_.shared_width > 0) {
      BackwardShared(own, weights, activations, arrays, gradients);
    }
  };
  if (own.expert_group != nullptr) {
    dispatched_.Backward(own, weights, activations, arrays.dout, products.expert_up, scratch,
                         gradients, backward_shared);
  }
  if (!has_rows) return;
  ExpertOps& ops = own.ops.experts();
  if (own.expert_loads != nullptr) {
    // Rows behind those of experts are dropped choices.
    const auto numbers = static_cast<int64_t>(extents_.loads_of_block());
    ops.AddLoads(numbers, experts.rows.offsets, own.expert_loads + layer_ * numbers);
  }
  if (own.expert_group == nullptr) {
    backward_shared();
    BackwardExperts(own, weights, activations, arrays, gradients);
  }
  ops.RouteBackward(Router(own), own.type,
                    {.logits = experts.logits,
                     .chosen = experts.chosen,
                     .dweights = scratch.weights_gradient,
                     .placed = drops(context) ? experts.placed : nullptr,
                     .counted = Counted(context),
                     .counts = experts.counts,
                     .auxiliary = experts_.auxiliary,
                     .z = experts_.z,
                     .gradient_scale = own.loss_scale,
                     .dlogits = products.router,
                     .sums = own.router_sums});
  if (!own.split_backward) BackwardRouterWeights(own, activations, products, gradients);
  CombineArrays combined = {.rows = ResultRows(own, scratch),
                            .places = experts.rows.places,
                            .kept = Kept(context, activations),
                            .out = products.proj};
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
  if (own.expert_group == nullptr) {
    const RowsOfExperts rows = OwnRowsOfExperts(own, activations);
    Gather(own, activations, dout, scratch);
    products_.BackwardOutWeights(own, rows, scratch.expert_rows, activations.experts.activated,
                                 own.gradients, gradients.experts.down);
    Gather(own, activations, activations.norm2_out, scratch);
    products_.BackwardUpWeights(own, rows, products.expert_up, scratch.expert_rows, own.gradients,
                                gradients.experts.up);
  }
  BackwardRouterWeights(own, activations, products, gradients);
  if (experts_.shared_width == 0) return;
  shared_.BackwardWeights(own, Shared(activations), SharedGradient(activations, dout), products.up,
                          gradients.up, gradients.down);
}

}  // namespace muster
