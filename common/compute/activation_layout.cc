#include "common/compute/activation_layout.h"

#include <algorithm>
#include <type_traits>

namespace muster {
namespace {

// Takes the arrays in the order in which they lie, each behind the one before it.
class Walk {
 public:
  Walk(const ActivationRequest& request, std::byte* base)
      : request_(request), next_(reinterpret_cast<uintptr_t>(base)) {}

  TransformerArrays TakeAll();

  const ActivationLayout::Bytes& bytes() const { return bytes_; }

 private:
  void Take(uint64_t elements, uint64_t& counter, void*& array) {
    array = reinterpret_cast<void*>(TakeBytes(elements * SizeOf(request_.type), counter));
  }
  void Take(uint64_t elements, uint64_t& counter, float*& array) {
    array = reinterpret_cast<float*>(TakeBytes(elements * sizeof(float), counter));
  }
  void Take(uint64_t elements, uint64_t& counter, int32_t*& array) {
    array = reinterpret_cast<int32_t*>(TakeBytes(elements * sizeof(int32_t), counter));
  }
  uintptr_t TakeBytes(uint64_t bytes, uint64_t& counter) {
    const uintptr_t begin = next_;
    const uint64_t padded = RoundUp(bytes, request_.placement.alignment);
    next_ += padded;
    counter += padded;
    return begin;
  }

  // Gives the block the first one's arrays where it has none for itself.
  void TakeBlock(uint64_t layer, BlockActivations& block);
  void TakeExperts(uint64_t layer, BlockActivations& block);
  void TakeProductGradients(uint64_t layer, BlockProductGradients& gradients);
  void TakeHead(LanguageHeadActivations& head);
  void TakeContext(bool first, BlockActivations& block);
  void TakeAdapters(AdapterScratch& scratch);

  const ActivationRequest& request_;
  uintptr_t next_;
  ActivationLayout::Bytes bytes_;
};

void Walk::TakeBlock(uint64_t layer, BlockActivations& block) {
  const ActivationRequest& r = request_;
  const bool first = layer == r.first_layer;
  const bool training = r.pass == Pass::kTraining;
  const bool keeps_products = training && r.recompute != Recompute::kFull;
  const bool keeps_all = training && r.recompute == Recompute::kNone;
  const bool keeps_inputs = training && (keeps_all || r.split_backward);
  const auto take = [&](bool own, uint64_t elements, auto*& array) {
    if (own || first) Take(elements, own ? bytes_.kept : bytes_.shared, array);
  };
  const uint64_t n = r.own_rows();
  take(training, n * r.C, block.norm1.sum);
  take(keeps_all, n, block.norm1.mean);
  take(keeps_all, n, block.norm1.rstd);
  take(keeps_inputs, n * r.C, block.norm1_out);
  if (r.divides_heads()) {
    take(keeps_products, r.N * r.exchanged_columns(), block.context.head_qkv);
    take(keeps_all, r.N * r.A, block.context.head_attention);
  } else {
    take(keeps_products, r.N * r.Q, block.qkv);
  }
  if (training && r.P > 0) take(keeps_products, r.N * r.P, block.unnormed);
  take(keeps_inputs, r.N * r.A, block.attention);
  take(keeps_all, r.N * r.H, block.logsumexp);
  take(keeps_products, n * r.C, block.norm2.sum);
  take(keeps_all, n, block.norm2.mean);
  take(keeps_all, n, block.norm2.rstd);
  take(keeps_inputs, n * r.C, block.norm2_out);
  take(keeps_products, r.N * (keeps_products ? r.UpOf(layer) : r.widest_up()), block.up);
  take(keeps_inputs, r.N * (keeps_inputs ? r.ActivatedOf(layer) : r.widest_activated()),
       block.activated);
  if (r.experts.E > 0) TakeExperts(layer, block);
  if (r.context_ranks > 1) TakeContext(first, block);
}

void Walk::TakeExperts(uint64_t layer, BlockActivations& block) {
  const ActivationRequest& r = request_;
  const ExpertExtents& of = r.experts;
  const bool first = layer == r.first_layer;
  const bool has_experts = of.IsExpertBlock(layer);
  const bool training = r.pass == Pass::kTraining;
  const bool keeps_products = training && r.recompute != Recompute::kFull;
  // Gradients of weights are made of these later.
  const bool keeps_inputs = training && (r.recompute == Recompute::kNone || r.splits_experts());
  const bool keeps_routes = keeps_products || (training && r.splits_experts());
  const auto take = [&](bool own, uint64_t elements, auto*& array) {
    if (own ? has_experts : first) Take(elements, own ? bytes_.kept : bytes_.shared, array);
  };
  const uint64_t n = r.own_rows(), R = r.expert_rows(), M = r.hosted_rows();
  ExpertActivations& experts = block.experts;
  take(keeps_products, n * of.E, experts.logits);
  take(keeps_routes, R, experts.weights);
  take(keeps_routes, R, experts.chosen);
  // Dropped choices have rows behind those of experts.
  take(keeps_routes, of.E + 1 + (of.drops ? 1 : 0), experts.rows.offsets);
  take(keeps_routes, R, experts.rows.assignments);
  take(keeps_routes, R, experts.rows.places);
  if (training && r.count_runs > 0) take(true, r.count_runs * of.E, experts.counts);
  if (training && of.drops) {
    take(keeps_routes, R, experts.placed);
    take(true, r.choice_counts * of.E, experts.choices);
  }
  take(keeps_products, M * of.U, experts.up);
  take(keeps_inputs, M * of.F, experts.activated);
  if (r.expert_ranks > 1) {
    // Recomputation sends rows again, but no counts.
    take(training, r.expert_ranks * (of.E + 1), experts.rank_offsets);
    take(keeps_products, M * r.C, experts.hosted.x);
    take(keeps_products, M, experts.hosted.weights);
    take(keeps_products, of.E / r.expert_ranks + 1, experts.hosted.offsets);
  }
  if (!of.shared_gate) return;
  take(keeps_products, n, experts.gate_logits);
  take(keeps_products || (training && r.split_backward), n * r.C, experts.shared);
}

void Walk::TakeProductGradients(uint64_t layer, BlockProductGradients& gradients) {
  const ActivationRequest& r = request_;
  const uint64_t n = r.own_rows();
  Take(r.N * r.Q, bytes_.kept, gradients.qkv);
  Take(n * r.C, bytes_.kept, gradients.proj);
  Take(r.N * r.UpOf(layer), bytes_.kept, gradients.up);
  Take(n * r.C, bytes_.kept, gradients.down);
  if (!r.experts.IsExpertBlock(layer)) return;
  if (r.splits_experts()) Take(r.expert_rows() * r.experts.U, bytes_.kept, gradients.expert_up);
  Take(n * r.experts.E, bytes_.kept, gradients.router);
  if (r.experts.shared_gate) Take(n, bytes_.kept, gradients.shared_gate);
}

void Walk::TakeHead(LanguageHeadActivations& head) {
  const ActivationRequest& r = request_;
  const uint64_t n = r.own_rows();
  Take(n * r.C, bytes_.shared, head.norm.sum);
  Take(n, bytes_.shared, head.norm.mean);
  Take(n, bytes_.shared, head.norm.rstd);
  if (!r.has_head) return;
  Take(n * r.C, bytes_.shared, head.norm_out);
  const uint64_t usual_rows = r.placement.LogitRows(r.V);
  const uint64_t rows = std::min(r.N, r.logit_rows > 0 ? r.logit_rows : usual_rows);
  head.logit_rows = static_cast<int64_t>(rows);
  head.logits = reinterpret_cast<float*>(
      TakeBytes(rows * r.placement.LogitsStride(r.V) * sizeof(float), bytes_.logits));
  if (r.tensor_ranks == 1) return;
  const auto take_parts = [&](uint64_t parts) {
    return reinterpret_cast<SoftmaxPart*>(TakeBytes(parts * sizeof(SoftmaxPart), bytes_.logits));
  };
  head.own_parts = take_parts(rows);
  head.parts = take_parts(r.tensor_ranks * rows);
}

void Walk::TakeContext(bool first, BlockActivations& block) {
  const ActivationRequest& r = request_;
  // Memory to write over: before a block's attention `activated`, which is made later, and before
  // attention's backward pass `up` as well, which has been read. It is lent from its end on,
  // without padding, so that any number of tokens finds room alike.
  struct Lent {
    uintptr_t end = 0;
    uint64_t left = 0;
  };
  const bool training = r.pass == Pass::kTraining;
  const auto lent = [&](void* array, uint64_t elements) {
    if ((training && r.split_backward) || r.experts.E > 0) return Lent();
    const uint64_t bytes = elements * SizeOf(r.type) / sizeof(float) * sizeof(float);
    return Lent{reinterpret_cast<uintptr_t>(array) + bytes, bytes};
  };
  Lent forward = lent(block.activated, r.N * r.F);
  Lent backward = lent(block.up, r.N * r.U);
  const auto take = [&](Lent& from, uint64_t elements, auto*& array) {
    const uint64_t element =
        std::is_same_v<decltype(array), float*&> ? sizeof(float) : SizeOf(r.type);
    const uint64_t bytes = elements * element;
    if (bytes <= from.left) {
      from.left -= bytes;
      from.end -= bytes;
      array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(from.end);
    } else if (first) {
      Take(elements, bytes_.scratch, array);
    }
  };
  ContextArrays& context = block.context;
  if (r.divides_heads()) {
    take(forward, r.N * r.exchanged_columns(), block.qkv);
    if (training) take(backward, r.N * r.exchanged_columns(), context.head_gradients);
    return;
  }
  const bool gathers = r.context_exchange == ContextExchange::kGather;
  const uint64_t own = r.N * (r.Q - r.A);
  const uint64_t keys = gathers ? r.context_ranks * own : own;
  for (int i = 0; i < (gathers ? 1 : 2); ++i) take(forward, keys, context.keys_values[i]);
  if (r.type != DType::kF32) take(forward, r.N * r.A, context.sums);
  if (!training) return;
  // `activated` lies behind `up` where both are the block's own, or all blocks'.
  if (r.recompute != Recompute::kSelective) {
    backward = {forward.end, backward.left + forward.left};
  }
  // Two ranks have one turn with another's keys, and so no buffers by turns.
  const int buffers = gathers ? 1 : r.context_ranks == 2 ? 3 : 4;
  for (int i = 0; i < buffers; ++i) take(backward, keys, context.gradients[i]);
  if (r.type == DType::kF32) take(backward, r.N * r.A, context.sums);
  take(backward, r.N * r.H, context.delta);
}

void Walk::TakeAdapters(AdapterScratch& scratch) {
  // Rows that stay in caches, and make products large enough.
  constexpr uint64_t kAdapterRows = 256;
  const ActivationRequest& r = request_;
  if (r.adapter_rank == 0) return;
  const uint64_t rows = std::min(r.N, kAdapterRows);
  const uint64_t W = std::max({r.C, r.A, r.F});
  scratch.rows = static_cast<int64_t>(rows);
  Take(rows * W, bytes_.scratch, scratch.wide);
  Take(rows * W, bytes_.scratch, scratch.product);
  Take(rows * W, bytes_.scratch, scratch.input);
  Take(rows * r.adapter_rank, bytes_.scratch, scratch.low);
  Take(rows * r.adapter_rank, bytes_.scratch, scratch.narrow);
  Take(rows * r.adapter_rank, bytes_.scratch, scratch.narrow_gradient);
}

TransformerArrays Walk::TakeAll() {
  const ActivationRequest& r = request_;
  TransformerArrays arrays;
  const uint64_t end = r.first_layer + r.layers;
  arrays.blocks.resize(end);
  for (uint64_t l = r.first_layer; l < end; ++l) {
    const bool first = l == r.first_layer;
    if (!first) arrays.blocks[l] = arrays.blocks[r.first_layer];
    TakeBlock(l, arrays.blocks[l]);
  }
  TakeHead(arrays.head);
  const uint64_t n = r.own_rows();
  Take(n * r.C, bytes_.scratch, arrays.scratch.branch);
  if (r.sequence_parallel) {
    arrays.scratch.gathered = reinterpret_cast<void*>(
        TakeBytes(r.tensor_ranks * n * r.C * sizeof(float), bytes_.scratch));
  }
  TakeAdapters(arrays.scratch.adapter);
  const ExpertExtents& experts = r.experts;
  const uint64_t R = r.expert_rows(), M = r.hosted_rows();
  if (experts.E > 0) Take(R * r.C, bytes_.scratch, arrays.scratch.expert_rows);
  if (r.expert_ranks > 1) {
    Take(R * r.C, bytes_.scratch, arrays.scratch.returned_rows);
    Take(R, bytes_.scratch, arrays.scratch.row_weights);
    Take(M * r.C, bytes_.scratch, arrays.scratch.hosted_rows);
    Take(M, bytes_.scratch, arrays.scratch.hosted_numbers);
  }
  if (r.pass == Pass::kEvaluation) return arrays;
  if (r.expert_ranks > 1) {
    Take(R, bytes_.scratch, arrays.scratch.row_dweights);
    Take(M, bytes_.scratch, arrays.scratch.hosted_dweights);
  }
  Take(std::max({r.N * std::max(r.widest_activated(), r.A), n * r.C, M * experts.F}),
       bytes_.scratch, arrays.scratch.inner);
  void* wide = nullptr;
  if (!r.split_backward) {
    Take(std::max(r.N * std::max(r.Q, r.widest_up()), M * experts.U), bytes_.scratch, wide);
  } else if (!r.splits_experts()) {
    Take(M * experts.U, bytes_.scratch, wide);
  }
  Take(n * r.C, bytes_.scratch, arrays.stream_gradient);
  BlockScratch& scratch = arrays.scratch;
  void *router = nullptr, *shared_gate = nullptr;
  if (experts.E > 0) {
    Take(R, bytes_.scratch, scratch.weights_gradient);
    if (experts.shared_F > 0) Take(n * r.C, bytes_.scratch, scratch.shared_gradient);
    if (!r.split_backward) Take(n * experts.E, bytes_.scratch, router);
    if (!r.split_backward && experts.shared_gate) Take(n, bytes_.scratch, shared_gate);
  }
  // The gradient of `activated` lies in `inner`, where that of a GELU's input takes its place.
  arrays.product_gradients.assign(end, {.qkv = wide,
                                        .proj = scratch.branch,
                                        .up = r.U == r.F ? scratch.inner : wide,
                                        .down = scratch.branch,
                                        .expert_up = wide,
                                        .router = router,
                                        .shared_gate = shared_gate});
  if (r.split_backward) {
    for (uint64_t l = r.first_layer; l < end; ++l) {
      TakeProductGradients(l, arrays.product_gradients[l]);
    }
  }
  return arrays;
}

}  // namespace

void SetUnits(uint64_t layers, const UnitRange& units, ActivationRequest& request) {
  const auto all = static_cast<int64_t>(layers);
  const int64_t first = std::clamp<int64_t>(units.first - 1, 0, all);
  request.first_layer = first;
  request.layers = std::clamp<int64_t>(units.end - 1, first, all) - first;
  request.has_head = units.end > all + 1;
}

ActivationLayout::ActivationLayout(const ActivationRequest& request) : request_(request) {
  Walk walk(request_, nullptr);
  walk.TakeAll();
  bytes_ = walk.bytes();
}

TransformerArrays ActivationLayout::Bind(std::byte* base) const {
  return Walk(request_, base).TakeAll();
}

}  // namespace muster
