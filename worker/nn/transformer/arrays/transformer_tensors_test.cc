#include "worker/nn/transformer/arrays/transformer_tensors.h"

#include <map>
#include <numeric>

#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
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

// Qwen2.5-0.5B and Qwen3-0.6B.
TransformerShape SmallQwen2() {
  TransformerShape shape = TinyLlama();
  shape.layers = 24;
  shape.width = 896;
  shape.heads = 14;
  shape.kv_heads = 2;
  shape.feed_forward = 4864;
  shape.vocabulary = 151936;
  shape.tied_head = true;
  shape.attention_biases = true;
  return shape;
}
TransformerShape SmallQwen3() {
  TransformerShape shape = SmallQwen2();
  shape.layers = 28;
  shape.width = 1024;
  shape.heads = 16;
  shape.head_columns = 128;
  shape.kv_heads = 8;
  shape.feed_forward = 3072;
  shape.attention_biases = false;
  shape.query_key_norm = TransformerShape::QueryKeyNorm::kPerHead;
  return shape;
}

int64_t Parameters(const TransformerShape& shape) {
  return DenseLayout::Create(MakeTransformerTensors(shape).specs, {})->elements();
}

// The published numbers.
TEST(TransformerTensorsTest, CountsOfKnownModels) {
  EXPECT_EQ(Parameters(Gpt2()), 124439808);
  EXPECT_EQ(Parameters(TinyLlama()), 1100048384);
  EXPECT_EQ(Parameters(SmallQwen2()), 494032768);
  EXPECT_EQ(Parameters(SmallQwen3()), 596049920);
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

// What a rank has of the tensors is what a transformer of its shape has, apart from what is the
// first rank's alone.
TEST(TransformerTensorsTest, SharesOfRanksAreThoseOfTheirShape) {
  TransformerShape gpt2 = Gpt2();
  gpt2.padded_vocabulary = 50304;
  for (const TransformerShape& shape : {gpt2, TinyLlama(), SmallQwen3()}) {
    for (const int ranks : {2, 4}) {
      const TransformerTensors of_shape =
          MakeTransformerTensors(ShapeOfRank(shape, Mesh({.tensor = ranks})));
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<TensorSpec> shares =
            LocalTensors(MakeTransformerTensors(shape).specs, {Mesh({.tensor = ranks})}, rank)
                .value();
        ASSERT_EQ(shares.size(), of_shape.specs.size());
        for (size_t i = 0; i < shares.size(); ++i) {
          SCOPED_TRACE(shares[i].name);
          EXPECT_EQ(shares[i].name, of_shape.specs[i].name);
          EXPECT_EQ(shares[i].tied_to, of_shape.specs[i].tied_to);
          const bool first = shares[i].placement.kind == Placement::Kind::kFirst;
          if (first && rank > 0) {
            EXPECT_EQ(shares[i].elements(), 0);
          } else {
            EXPECT_EQ(shares[i].shape, of_shape.specs[i].shape);
          }
        }
      }
    }
  }
}

// TinyLlama has 4 key-value heads: of 8 ranks two have each.
TEST(TransformerTensorsTest, KeyValueHeadsFewerThanRanksAreReplicated) {
  const TransformerTensors tensors = MakeTransformerTensors(TinyLlama());
  const int qkv = tensors.blocks[0].qkv.weight;
  const TensorSpec share = LocalTensors(tensors.specs, {Mesh({.tensor = 8})}, 5).value()[qkv];
  EXPECT_EQ(share.shape, (std::vector<int64_t>{(4 + 1 + 1) * 64, 2048}));
  ASSERT_EQ(share.rectangles.size(), 3u);
  EXPECT_EQ(share.rectangles[1].start[0], 2048 + 2 * 64);
  EXPECT_EQ(LocalTensors(tensors.specs, {Mesh({.tensor = 8})}, 4).value()[qkv].rectangles[1],
            share.rectangles[1]);
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
