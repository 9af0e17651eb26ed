#include "worker/nn/transformer/arrays/transformer_tensors.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr float kDeviation = 0.02f;

// Appends tensors of one unit after another.
class Builder {
 public:
  Builder(const TransformerShape& shape, std::vector<TensorSpec>& specs)
      : shape_(shape), specs_(specs) {}

  void BeginUnit(uint32_t unit) { unit_ = unit; }

  int Matrix(std::string name, int64_t rows, int64_t cols, float deviation, Placement placement) {
    return Append({.name = std::move(name),
                   .shape = {rows, cols},
                   .initializer = {.kind = Initializer::Kind::kNormal, .scale = deviation},
                   .unit = unit_,
                   .placement = std::move(placement)});
  }

  // A layer whose outputs tensor ranks divide by sections.
  LayerTensors ColumnLinear(const std::string& name, std::vector<Placement::Section> sections,
                            int64_t cols, float deviation, bool bias) {
    int64_t rows = 0;
    for (const Placement::Section& section : sections) rows += section.extent;
    const Placement placement = {Placement::Kind::kShard, 0, std::move(sections)};
    LayerTensors layer;
    layer.weight = Matrix(absl::StrCat(name, ".weight"), rows, cols, deviation, placement);
    if (bias) layer.bias = Vector(absl::StrCat(name, ".bias"), rows, 0, placement);
    return layer;
  }

  // A layer whose inputs tensor ranks divide. Their results add up, so one of them has the bias.
  LayerTensors RowLinear(const std::string& name, int64_t rows, Placement::Section inputs,
                         float deviation) {
    LayerTensors layer;
    layer.weight = Matrix(absl::StrCat(name, ".weight"), rows, inputs.extent, deviation,
                          {Placement::Kind::kShard, 1, {inputs}});
    if (shape_.biases) {
      layer.bias = Vector(absl::StrCat(name, ".bias"), rows, 0, {.kind = Placement::Kind::kFirst});
    }
    return layer;
  }

  // A layer without bias, which every tensor rank has.
  int Whole(const std::string& name, int64_t rows, int64_t cols, float deviation) {
    return Matrix(absl::StrCat(name, ".weight"), rows, cols, deviation, {});
  }

  // The layers of all experts, one after another, which expert ranks divide.
  int Experts(const std::string& name, int64_t rows, int64_t cols, float deviation) {
    const int64_t experts = shape_.experts.experts;
    return Matrix(absl::StrCat(name, ".weight"), experts * rows, cols, deviation,
                  {.kind = Placement::Kind::kExperts, .sections = {{experts * rows, experts}}});
  }

  // Zeros that move by the signs of their gradients.
  int SignedVector(std::string name, int64_t elements, float sign_rate) {
    const int tensor = Vector(std::move(name), elements, 0, {});
    specs_[tensor].sign_rate = sign_rate;
    return tensor;
  }

  // Weights of a norm of so many columns of heads. Ranks have those that all heads share in common,
  // and compute different heads.
  int HeadNorm(const std::string& name, int64_t columns) {
    return Vector(absl::StrCat(name, ".weight"), columns, 1,
                  {Placement::Kind::kShard, 0, {{columns, 1}}});
  }

  // Matrices beside those of a layer [out, in]: ranks divide the section, of inputs or of outputs.
  enum class Divided { kOutputs, kInputs };
  AdapterTensors Adapter(const std::string& name, int64_t out, int64_t in, Divided divided,
                         const Placement::Section& section) {
    using Kind = Placement::Kind;
    const int64_t rank = shape_.adapter.rank;
    const bool by_inputs = divided == Divided::kInputs;
    AdapterTensors adapter;
    adapter.down = Append({.name = name + ".adapter.down",
                           .shape = {rank, in},
                           .initializer = {.kind = Initializer::Kind::kUniform,
                                           .scale = 1 / std::sqrt(static_cast<float>(in))},
                           .unit = unit_,
                           .placement = by_inputs ? Placement{Kind::kShard, 1, {section}}
                                                  : Placement{Kind::kShard, 0, {{rank, 1}}}});
    adapter.up = Append({.name = name + ".adapter.up",
                         .shape = {out, rank},
                         .initializer = {},
                         .unit = unit_,
                         .placement = by_inputs ? Placement{Kind::kShard, 0, {{out, 1}}}
                                                : Placement{Kind::kShard, 0, {section}}});
    return adapter;
  }

  LayerTensors Norm(const std::string& name) {
    LayerTensors layer;
    layer.weight = Vector(absl::StrCat(name, ".weight"), shape_.width, 1, {});
    if (shape_.biases && shape_.norm == TransformerShape::Norm::kLayerNorm) {
      layer.bias = Vector(absl::StrCat(name, ".bias"), shape_.width, 0, {});
    }
    return layer;
  }

 private:
  int Vector(std::string name, int64_t elements, float value, Placement placement) {
    return Append({.name = std::move(name),
                   .shape = {elements},
                   .initializer = {.value = value},
                   .unit = unit_,
                   .weight_decay = false,
                   .placement = std::move(placement)});
  }

  int Append(TensorSpec spec) {
    specs_.push_back(std::move(spec));
    return static_cast<int>(specs_.size()) - 1;
  }

  const TransformerShape& shape_;
  std::vector<TensorSpec>& specs_;
  uint32_t unit_ = 0;
};

}  // namespace

TransformerShape ShapeOfRank(const TransformerShape& shape, const Mesh& mesh) {
  const int ranks = mesh.size(Axis::kTensor);
  TransformerShape local = shape;
  if (ranks == 1) return local;
  local.head_columns = shape.head_dim();
  local.heads = shape.heads / ranks;
  local.kv_heads = std::max<int64_t>(1, shape.kv_heads / ranks);
  local.feed_forward = shape.feed_forward / ranks;
  local.vocabulary = shape.vocabulary_rows() / ranks;
  local.padded_vocabulary = 0;
  return local;
}

namespace {

// Adds the tensors of a feed-forward layer of experts.
void AddExperts(const TransformerShape& shape, const std::string& name, float residual_deviation,
                Builder& builder, BlockTensors& block) {
  const ExpertShape& experts = shape.experts;
  const int64_t C = shape.width;
  block.router = builder.Whole(name + ".router", experts.experts, C, kDeviation);
  if (experts.bias_rate > 0) {
    block.router_bias =
        builder.SignedVector(name + ".router.bias", experts.experts, experts.bias_rate);
  }
  block.expert_up =
      builder.Experts(name + ".experts.up", shape.UpWidth(experts.width), C, kDeviation);
  block.expert_down = builder.Experts(name + ".experts.down", C, experts.width, residual_deviation);
  if (experts.shared_width == 0) return;
  block.up.weight =
      builder.Whole(name + ".shared.up", shape.UpWidth(experts.shared_width), C, kDeviation);
  block.down.weight =
      builder.Whole(name + ".shared.down", C, experts.shared_width, residual_deviation);
  if (experts.shared_gate)
    block.shared_gate = builder.Whole(name + ".shared_gate", 1, C, kDeviation);
}

}  // namespace

namespace {

// Adds the adapters of a block.
void AddAdapters(const TransformerShape& shape, const std::string& block_name, Builder& builder,
                 BlockTensors& block) {
  using Divided = Builder::Divided;
  const int64_t C = shape.width, F = shape.feed_forward;
  const Placement::Section queries = {shape.attention_width(), shape.heads};
  const Placement::Section keys = {shape.kv_heads * shape.head_dim(), shape.kv_heads};
  const Placement::Section hidden = {F, F};
  const auto add = [&](AdapterTarget target, int64_t out, int64_t in, Divided divided,
                       const Placement::Section& section) {
    if (!shape.adapter.Has(target)) return;
    const int index = static_cast<int>(target);
    block.adapters[index] = builder.Adapter(
        absl::StrCat(block_name, ".", kAdapterTargetNames[index]), out, in, divided, section);
  };
  add(AdapterTarget::kQuery, queries.extent, C, Divided::kOutputs, queries);
  add(AdapterTarget::kKey, keys.extent, C, Divided::kOutputs, keys);
  add(AdapterTarget::kValue, keys.extent, C, Divided::kOutputs, keys);
  add(AdapterTarget::kOutput, C, queries.extent, Divided::kInputs, queries);
  add(AdapterTarget::kGate, F, C, Divided::kOutputs, hidden);
  add(AdapterTarget::kUp, F, C, Divided::kOutputs, hidden);
  add(AdapterTarget::kDown, C, F, Divided::kInputs, hidden);
}

}  // namespace

TransformerTensors MakeTransformerTensors(const TransformerShape& shape) {
  using Kind = Placement::Kind;
  const int64_t C = shape.width;
  const int64_t F = shape.feed_forward;
  const int64_t V = shape.vocabulary_rows();
  const float residual_deviation = kDeviation / std::sqrt(2 * static_cast<float>(shape.layers));
  const Placement::Section queries = {shape.attention_width(), shape.heads};
  const Placement::Section keys = {shape.kv_heads * shape.head_dim(), shape.kv_heads};
  const Placement::Section hidden = {F, F};
  const Placement by_token = {Kind::kShard, 0, {{V, V}}};
  TransformerTensors tensors;
  Builder builder(shape, tensors.specs);
  tensors.embedding = builder.Matrix("embedding.weight", V, C, kDeviation, by_token);
  if (shape.positions == TransformerShape::Positions::kLearned) {
    tensors.positions =
        builder.Matrix("positions.weight", shape.context, C, kDeviation, {.kind = Kind::kFirst});
  }
  const ExpertExtents extents = shape.expert_extents();
  const bool gated = shape.activation == TransformerShape::Activation::kSwiGlu;
  for (int64_t l = 0; l < shape.layers; ++l) {
    builder.BeginUnit(static_cast<uint32_t>(1 + l));
    const std::string name = absl::StrCat("block", l);
    BlockTensors block;
    block.norm1 = builder.Norm(name + ".norm1");
    block.qkv = builder.ColumnLinear(name + ".qkv", {queries, keys, keys}, C, kDeviation,
                                     shape.biases || shape.attention_biases);
    if (shape.query_key_norm != TransformerShape::QueryKeyNorm::kNone) {
      block.query_norm =
          builder.HeadNorm(name + ".query_norm", shape.HeadsOfNorm(shape.heads) * shape.head_dim());
      block.key_norm = builder.HeadNorm(name + ".key_norm",
                                        shape.HeadsOfNorm(shape.kv_heads) * shape.head_dim());
    }
    block.proj = builder.RowLinear(name + ".proj", C, queries, residual_deviation);
    block.norm2 = builder.Norm(name + ".norm2");
    if (extents.IsExpertBlock(l)) {
      AddExperts(shape, name, residual_deviation, builder, block);
    } else {
      block.up = builder.ColumnLinear(
          name + ".up",
          gated ? std::vector<Placement::Section>{hidden, hidden} : std::vector{hidden}, C,
          kDeviation, shape.biases);
      block.down = builder.RowLinear(name + ".down", C, hidden, residual_deviation);
    }
    AddAdapters(shape, name, builder, block);
    tensors.blocks.push_back(block);
  }
  builder.BeginUnit(static_cast<uint32_t>(1 + shape.layers));
  tensors.norm = builder.Norm("norm");
  tensors.head = builder.Matrix("head.weight", V, C, kDeviation, by_token);
  if (shape.tied_head) tensors.specs[tensors.head].tied_to = "embedding.weight";
  return tensors;
}

}  // namespace muster
