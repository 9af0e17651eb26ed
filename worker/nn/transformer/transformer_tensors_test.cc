#include "worker/nn/transformer/transformer_tensors.h"

#include <map>
#include <numeric>

#include "common/partition/dense_layout.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TransformerShape Gpt2() {
  return {.layers = 12,
          .width = 768,
          .heads = 12,
          .kv_heads = 12,
          .feed_forward = 3072,
          .vocabulary = 50257,
          .context = 1024};
}

TransformerShape TinyLlama() {
  return {.layers = 22,
          .width = 2048,
          .heads = 32,
          .kv_heads = 4,
          .feed_forward = 5632,
          .vocabulary = 32000,
          .context = 2048,
          .norm = TransformerShape::Norm::kRmsNorm,
          .positions = TransformerShape::Positions::kRotary,
          .activation = TransformerShape::Activation::kSwiGlu,
          .tied_head = false,
          .biases = false};
}

int64_t Parameters(const TransformerShape& shape) {
  return DenseLayout::Create(MakeTransformerTensors(shape).specs, {})->elements();
}

// The published numbers.
TEST(TransformerTensorsTest, CountsOfKnownModels) {
  EXPECT_EQ(Parameters(Gpt2()), 124439808);
  EXPECT_EQ(Parameters(TinyLlama()), 1100048384);
}

TEST(TransformerTensorsTest, NamesAndShapes) {
  const TransformerTensors gpt2 = MakeTransformerTensors(Gpt2());
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const TensorSpec& spec : gpt2.specs) shapes[spec.name] = spec.shape;
  EXPECT_EQ(shapes.size(), 2 + 12 * 12 + 3);
  EXPECT_EQ(shapes["embedding.weight"], (std::vector<int64_t>{50257, 768}));
  EXPECT_EQ(shapes["positions.weight"], (std::vector<int64_t>{1024, 768}));
  EXPECT_EQ(shapes["block11.qkv.weight"], (std::vector<int64_t>{3 * 768, 768}));
  EXPECT_EQ(shapes["block11.up.weight"], (std::vector<int64_t>{3072, 768}));
  EXPECT_EQ(shapes["block11.down.bias"], (std::vector<int64_t>{768}));
  EXPECT_EQ(gpt2.specs[gpt2.head].tied_to, "embedding.weight");
  EXPECT_EQ(gpt2.specs[gpt2.blocks[3].proj.weight].name, "block3.proj.weight");
  EXPECT_EQ(gpt2.specs[gpt2.blocks[3].proj.weight].unit, 4);

  const TransformerTensors llama = MakeTransformerTensors(TinyLlama());
  EXPECT_EQ(llama.specs.size(), 1 + 22 * 6 + 2);
  EXPECT_EQ(llama.positions, kNoTensor);
  EXPECT_EQ(llama.norm.bias, kNoTensor);
  EXPECT_TRUE(llama.specs[llama.head].tied_to.empty());
  EXPECT_EQ(llama.specs[llama.blocks[0].qkv.weight].shape,
            (std::vector<int64_t>{2048 + 2 * 256, 2048}));
  EXPECT_EQ(llama.specs[llama.blocks[0].up.weight].shape, (std::vector<int64_t>{2 * 5632, 2048}));
}

TEST(TransformerTensorsTest, InitialValuesAndDecay) {
  const TransformerTensors tensors = MakeTransformerTensors(Gpt2());
  const auto& qkv = tensors.specs[tensors.blocks[0].qkv.weight];
  EXPECT_EQ(qkv.initializer.kind, Initializer::Kind::kNormal);
  EXPECT_FLOAT_EQ(qkv.initializer.scale, 0.02f);
  EXPECT_FLOAT_EQ(tensors.specs[tensors.blocks[0].down.weight].initializer.scale,
                  0.02f / 4.8989795f);
  EXPECT_EQ(tensors.specs[tensors.norm.weight].initializer.value, 1);
  EXPECT_EQ(tensors.specs[tensors.norm.bias].initializer.value, 0);
  for (const TensorSpec& spec : tensors.specs) {
    EXPECT_EQ(spec.weight_decay, spec.shape.size() == 2) << spec.name;
  }
}

}  // namespace
}  // namespace muster
