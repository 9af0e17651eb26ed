#include "worker/nn/transformer/transformer_tensors.h"

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

  int Matrix(std::string name, int64_t rows, int64_t cols, float deviation) {
    return Append({.name = std::move(name),
                   .shape = {rows, cols},
                   .initializer = {.kind = Initializer::Kind::kNormal, .scale = deviation},
                   .unit = unit_});
  }

  LayerTensors Linear(const std::string& name, int64_t rows, int64_t cols, float deviation) {
    LayerTensors layer;
    layer.weight = Matrix(absl::StrCat(name, ".weight"), rows, cols, deviation);
    if (shape_.biases) layer.bias = Vector(absl::StrCat(name, ".bias"), rows, 0);
    return layer;
  }

  LayerTensors Norm(const std::string& name) {
    LayerTensors layer;
    layer.weight = Vector(absl::StrCat(name, ".weight"), shape_.width, 1);
    if (shape_.biases && shape_.norm == TransformerShape::Norm::kLayerNorm) {
      layer.bias = Vector(absl::StrCat(name, ".bias"), shape_.width, 0);
    }
    return layer;
  }

 private:
  int Vector(std::string name, int64_t elements, float value) {
    return Append({.name = std::move(name),
                   .shape = {elements},
                   .initializer = {.value = value},
                   .unit = unit_,
                   .weight_decay = false});
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

TransformerTensors MakeTransformerTensors(const TransformerShape& shape) {
  const int64_t C = shape.width;
  const float residual_deviation = kDeviation / std::sqrt(2 * static_cast<float>(shape.layers));
  TransformerTensors tensors;
  Builder builder(shape, tensors.specs);
  tensors.embedding = builder.Matrix("embedding.weight", shape.vocabulary_rows(), C, kDeviation);
  if (shape.positions == TransformerShape::Positions::kLearned) {
    tensors.positions = builder.Matrix("positions.weight", shape.context, C, kDeviation);
  }
  for (int64_t l = 0; l < shape.layers; ++l) {
    builder.BeginUnit(static_cast<uint32_t>(1 + l));
    const std::string name = absl::StrCat("block", l);
    BlockTensors block;
    block.norm1 = builder.Norm(name + ".norm1");
    block.qkv = builder.Linear(name + ".qkv", shape.qkv_width(), C, kDeviation);
    block.proj =
        builder.Linear(name + ".proj", C, shape.heads * shape.head_dim(), residual_deviation);
    block.norm2 = builder.Norm(name + ".norm2");
    block.up = builder.Linear(name + ".up", shape.up_width(), C, kDeviation);
    block.down = builder.Linear(name + ".down", C, shape.feed_forward, residual_deviation);
    tensors.blocks.push_back(block);
  }
  builder.BeginUnit(static_cast<uint32_t>(1 + shape.layers));
  tensors.norm = builder.Norm("norm");
  tensors.head = builder.Matrix("head.weight", shape.vocabulary_rows(), C, kDeviation);
  if (shape.tied_head) tensors.specs[tensors.head].tied_to = "embedding.weight";
  return tensors;
}

}  // namespace muster
