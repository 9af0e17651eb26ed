#include "common/model_files/transformer_layout.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Spec = v1::TransformerSpec;

Spec LayoutGpt2() {
  Spec spec;
  spec.set_layers(2);
  spec.set_width(8);
  spec.set_heads(2);
  spec.set_context(16);
  FillTransformerDefaults(30, spec);
  return spec;
}

Spec LayoutLlama() {
  Spec spec = LayoutGpt2();
  spec.set_heads(4);
  spec.set_kv_heads(2);
  spec.set_norm(Spec::RMS_NORM);
  spec.set_positions(Spec::ROTARY);
  spec.set_activation(Spec::SWIGLU);
  spec.set_no_biases(true);
  spec.set_separate_head(true);
  spec.set_feed_forward(24);
  return spec;
}

std::map<std::string, HuggingFaceTensor> ByName(HuggingFaceFamily family, const Spec& spec) {
  std::map<std::string, HuggingFaceTensor> tensors;
  for (const HuggingFaceTensor& tensor : HuggingFaceTensors(family, spec)) {
    EXPECT_TRUE(tensors.emplace(tensor.name, tensor).second) << tensor.name;
  }
  return tensors;
}

std::map<std::string, std::vector<int64_t>> Shapes(HuggingFaceFamily family, const Spec& spec) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const MusterTensor& tensor : MusterTensors(HuggingFaceTensors(family, spec))) {
    EXPECT_TRUE(shapes.emplace(tensor.name, tensor.shape).second) << tensor.name;
  }
  return shapes;
}

TEST(TransformerLayoutTest, DefaultsAsTheSpecificationTells) {
  const Spec spec = LayoutGpt2();
  EXPECT_EQ(spec.vocabulary(), 30u);
  EXPECT_EQ(spec.kv_heads(), 2u);
  EXPECT_EQ(spec.feed_forward(), 32u);
  EXPECT_EQ(spec.norm(), Spec::LAYER_NORM);
  EXPECT_EQ(spec.norm_epsilon(), 1e-5f);
  EXPECT_EQ(spec.rotary_base(), 10000);
  Spec swiglu;
  swiglu.set_width(768);
  swiglu.set_activation(Spec::SWIGLU);
  swiglu.set_vocabulary(7);
  FillTransformerDefaults(30, swiglu);
  EXPECT_EQ(swiglu.feed_forward(), 2048u);
  EXPECT_EQ(swiglu.vocabulary(), 7u);
  swiglu.set_width(100);
  swiglu.set_feed_forward(0);
  FillTransformerDefaults(30, swiglu);
  EXPECT_EQ(swiglu.feed_forward(), 320u) << "266.7, rounded up to a multiple of 64";
}

TEST(TransformerLayoutTest, Gpt2sMatricesAreTransposed) {
  ASSERT_EQ(FamilyOf(LayoutGpt2()).value(), HuggingFaceFamily::kGpt2);
  const auto tensors = ByName(HuggingFaceFamily::kGpt2, LayoutGpt2());
  EXPECT_EQ(tensors.size(), 2u + 2 * 12 + 2);
  const HuggingFaceTensor& qkv = tensors.at("transformer.h.1.attn.c_attn.weight");
  EXPECT_THAT(qkv.shape, ElementsAre(8, 24));
  EXPECT_EQ(qkv.muster, "block1.qkv.weight");
  EXPECT_TRUE(qkv.transposed);
  EXPECT_FALSE(tensors.at("transformer.wte.weight").transposed);
  EXPECT_THAT(tensors.at("transformer.h.0.mlp.c_proj.weight").shape, ElementsAre(32, 8));
  const auto shapes = Shapes(HuggingFaceFamily::kGpt2, LayoutGpt2());
  EXPECT_THAT(shapes.at("block1.qkv.weight"), ElementsAre(24, 8));
  EXPECT_THAT(shapes.at("block0.down.weight"), ElementsAre(8, 32));
  EXPECT_THAT(shapes.at("positions.weight"), ElementsAre(16, 8));
  EXPECT_EQ(shapes.count("head.weight"), 0u);
  EXPECT_EQ(shapes.size(), tensors.size());
}

TEST(TransformerLayoutTest, LlamasPartsAreRowsOfOneMatrix) {
  ASSERT_EQ(FamilyOf(LayoutLlama()).value(), HuggingFaceFamily::kLlama);
  const auto tensors = ByName(HuggingFaceFamily::kLlama, LayoutLlama());
  EXPECT_EQ(tensors.size(), 1u + 2 * 9 + 2);
  EXPECT_EQ(tensors.at("model.layers.0.self_attn.q_proj.weight").first_row, 0);
  EXPECT_EQ(tensors.at("model.layers.0.self_attn.k_proj.weight").first_row, 8);
  EXPECT_EQ(tensors.at("model.layers.0.self_attn.v_proj.weight").first_row, 12);
  EXPECT_THAT(tensors.at("model.layers.0.self_attn.v_proj.weight").shape, ElementsAre(4, 8));
  EXPECT_EQ(tensors.at("model.layers.1.mlp.up_proj.weight").first_row, 24);
  const auto shapes = Shapes(HuggingFaceFamily::kLlama, LayoutLlama());
  EXPECT_THAT(shapes.at("block0.qkv.weight"), ElementsAre(16, 8));
  EXPECT_THAT(shapes.at("block0.up.weight"), ElementsAre(48, 8));
  EXPECT_THAT(shapes.at("head.weight"), ElementsAre(30, 8));
}

TEST(TransformerLayoutTest, OtherShapesAreRefusedByWhatDiffers) {
  Spec spec = LayoutGpt2();
  spec.set_positions(Spec::ROTARY);
  const std::string message(FamilyOf(spec).status().message());
  EXPECT_THAT(message, HasSubstr("from GPT-2's by positions ROTARY (it has LEARNED);"));
  EXPECT_THAT(message, HasSubstr("from Llama's by norm LAYER_NORM (it has RMS_NORM)"));
  spec = LayoutGpt2();
  spec.set_kv_heads(1);
  EXPECT_THAT(std::string(FamilyOf(spec).status().message()), HasSubstr("kv_heads 1"));
  spec = LayoutGpt2();
  spec.set_no_biases(true);
  EXPECT_EQ(FamilyOf(spec).value(), HuggingFaceFamily::kGpt2);
  spec = LayoutLlama();
  spec.set_no_biases(false);
  EXPECT_THAT(std::string(FamilyOf(spec).status().message()),
              HasSubstr("from Llama's by no_biases false (it has true)"));
}

}  // namespace
}  // namespace muster
