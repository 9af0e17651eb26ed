#include "worker/nn/transformer/adapters/block_adapters.h"

#include "absl/strings/str_cat.h"

namespace muster {

BlockAdapters::BlockAdapters(const TransformerShape& shape, int64_t layer) {
  const int64_t C = shape.width;
  const int64_t A = shape.attention_width();
  const int64_t K = shape.kv_heads * shape.head_dim();
  const int64_t F = shape.feed_forward;
  const int64_t U = shape.up_width();
  const int64_t Q = shape.qkv_width();
  using Target = AdapterTarget;
  const auto add = [&](AdaptedLayer adapted, Target target, const LowRankAdapter::Place& place) {
    Add(shape, layer, adapted, target, place);
  };
  add(AdaptedLayer::kQkv, Target::kQuery, {.in = C, .out = A, .column = 0, .stride = Q});
  add(AdaptedLayer::kQkv, Target::kKey, {.in = C, .out = K, .column = A, .stride = Q});
  add(AdaptedLayer::kQkv, Target::kValue, {.in = C, .out = K, .column = A + K, .stride = Q});
  add(AdaptedLayer::kProj, Target::kOutput, {.in = A, .out = C, .column = 0, .stride = C});
  add(AdaptedLayer::kUp, Target::kGate, {.in = C, .out = F, .column = 0, .stride = U});
  add(AdaptedLayer::kUp, Target::kUp, {.in = C, .out = F, .column = U - F, .stride = U});
  add(AdaptedLayer::kDown, Target::kDown, {.in = F, .out = C, .column = 0, .stride = C});
}

void BlockAdapters::Add(const TransformerShape& shape, int64_t block, AdaptedLayer layer,
                        AdapterTarget target, const LowRankAdapter::Place& place) {
  if (!shape.adapter.Has(target)) return;
  const absl::string_view name = kAdapterTargetNames[static_cast<int>(target)];
  layers_[static_cast<int>(layer)].push_back(
      {target,
       LowRankAdapter(shape.adapter, absl::StrCat("block", block, ".", name, ".adapter"), place)});
}

void BlockAdapters::AddForward(const ComputeContext& context, AdaptedLayer layer,
                               const Arrays& arrays, const void* x, void* y) const {
  for (const Adapter& it : Of(layer)) {
    it.adapter.AddForward(context, arrays.weights.adapters[static_cast<int>(it.target)], x, y,
                          arrays.scratch);
  }
}

void BlockAdapters::BackwardWeights(const ComputeContext& context, AdaptedLayer layer,
                                    const Arrays& arrays, const void* x, const void* dy) const {
  for (const Adapter& it : Of(layer)) {
    const int target = static_cast<int>(it.target);
    it.adapter.BackwardWeights(context, arrays.weights.adapters[target], x, dy,
                               arrays.gradients->adapters[target], arrays.scratch);
  }
}

void BlockAdapters::AddInputGradient(const ComputeContext& context, AdaptedLayer layer,
                                     const Arrays& arrays, const void* dy, void* dx,
                                     const void* before) const {
  for (const Adapter& it : Of(layer)) {
    it.adapter.AddInputGradient(context, arrays.weights.adapters[static_cast<int>(it.target)], dy,
                                before, dx, arrays.scratch);
  }
}

}  // namespace muster
