#include "common/model_files/transformer_layout.h"

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
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
  spec.set_head_width(2);
  spec.set_kv_heads(2);
  spec.set_norm(Spec::RMS_NORM);
  spec.set_positions(Spec::ROTARY);
  spec.set_activation(Spec::SWIGLU);
  spec.set_no_biases(true);
  spec.set_separate_head(true);
  spec.set_feed_forward(24);
  return spec;
}

Spec LayoutMixtral() {
  Spec spec = LayoutLlama();
  spec.mutable_moe()->set_experts(4);
  spec.mutable_moe()->set_top_k(2);
  spec.mutable_moe()->set_normalize(true);
  FillTransformerDefaults(30, spec);
  return spec;
}

Spec LayoutQwen2Moe() {
  Spec spec = LayoutMixtral();
  v1::MoeSpec& moe = *spec.mutable_moe();
  moe.set_expert_width(10);
  moe.set_normalize(false);
  moe.set_shared_width(5);
  moe.set_shared_gate(true);
  moe.add_dense_layers(1);
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

TEST(TransformerLayoutTest, HeadsNeedNotShareOutTheWidth) {
  Spec spec = LayoutLlama();
  spec.set_head_width(6);
  spec.set_attention_biases(true);
  EXPECT_EQ(FamilyOf(spec).value(), HuggingFaceFamily::kQwen2);
  const auto tensors = ByName(HuggingFaceFamily::kQwen2, spec);
  const HuggingFaceTensor& values = tensors.at("model.layers.1.self_attn.v_proj.weight");
  EXPECT_THAT(values.shape, ElementsAre(12, 8));
  EXPECT_EQ(values.first_row, 36);
  const HuggingFaceTensor& biases = tensors.at("model.layers.1.self_attn.v_proj.bias");
  EXPECT_THAT(biases.shape, ElementsAre(12));
  EXPECT_EQ(biases.first_row, 36);
  EXPECT_EQ(biases.muster, "block1.qkv.bias");
  EXPECT_THAT(tensors.at("model.layers.1.self_attn.o_proj.weight").shape, ElementsAre(8, 24));
  EXPECT_EQ(tensors.count("model.layers.1.self_attn.o_proj.bias"), 0u);
}

TEST(TransformerLayoutTest, NormsOfQueriesAndKeys) {
  Spec spec = LayoutLlama();
  EXPECT_EQ(FamilyOf(spec).value(), HuggingFaceFamily::kLlama);
  spec.set_query_key_norm(Spec::PER_HEAD);
  EXPECT_EQ(FamilyOf(spec).value(), HuggingFaceFamily::kQwen3);
  const auto per_head = ByName(HuggingFaceFamily::kQwen3, spec);
  EXPECT_THAT(per_head.at("model.layers.0.self_attn.q_norm.weight").shape, ElementsAre(2));
  EXPECT_THAT(per_head.at("model.layers.0.self_attn.k_norm.weight").shape, ElementsAre(2));
  EXPECT_EQ(per_head.at("model.layers.0.self_attn.k_norm.weight").muster, "block0.key_norm.weight");
  spec = LayoutMixtral();
  spec.set_query_key_norm(Spec::PER_HEAD);
  EXPECT_EQ(FamilyOf(spec).value(), HuggingFaceFamily::kQwen3Moe);
  spec.set_query_key_norm(Spec::WHOLE_WIDTH);
  EXPECT_EQ(FamilyOf(spec).value(), HuggingFaceFamily::kOlmoe);
  const auto whole = ByName(HuggingFaceFamily::kOlmoe, spec);
  EXPECT_THAT(whole.at("model.layers.0.self_attn.q_norm.weight").shape, ElementsAre(8));
  EXPECT_THAT(whole.at("model.layers.0.self_attn.k_norm.weight").shape, ElementsAre(4));
}

TEST(TransformerLayoutTest, DefaultsOfExperts) {
  Spec spec = LayoutMixtral();
  const v1::MoeSpec& moe = spec.moe();
  EXPECT_EQ(moe.expert_width(), 24u);
  EXPECT_EQ(moe.scores(), v1::MoeSpec::SOFTMAX);
  EXPECT_EQ(moe.scaling(), 1);
  EXPECT_EQ(moe.auxiliary_scope(), v1::MoeSpec::SEQUENCE);
  FillTransformerDefaults(30, spec);
  EXPECT_EQ(spec.DebugString(), LayoutMixtral().DebugString());
  spec.mutable_moe()->set_expert_width(5);
  spec.mutable_moe()->set_scaling(2.5f);
  FillTransformerDefaults(30, spec);
  EXPECT_EQ(moe.expert_width(), 5u);
  EXPECT_EQ(moe.scaling(), 2.5f);
  EXPECT_FALSE(LayoutLlama().has_moe());
}

TEST(TransformerLayoutTest, MixtralsExpertsAreRowsOfTwoMatrices) {
  ASSERT_EQ(FamilyOf(LayoutMixtral()).value(), HuggingFaceFamily::kMixtral);
  const auto tensors = ByName(HuggingFaceFamily::kMixtral, LayoutMixtral());
  EXPECT_EQ(tensors.size(), 1u + 2 * (6 + 1 + 3 * 4) + 2);
  const std::string experts = "model.layers.1.block_sparse_moe.experts.";
  for (int e = 0; e < 4; ++e) {
    const HuggingFaceTensor& gate = tensors.at(experts + std::to_string(e) + ".w1.weight");
    const HuggingFaceTensor& up = tensors.at(experts + std::to_string(e) + ".w3.weight");
    const HuggingFaceTensor& down = tensors.at(experts + std::to_string(e) + ".w2.weight");
    EXPECT_EQ(gate.muster, "block1.experts.up.weight");
    EXPECT_EQ(gate.first_row, e * 48);
    EXPECT_EQ(up.muster, "block1.experts.up.weight");
    EXPECT_EQ(up.first_row, e * 48 + 24);
    EXPECT_THAT(up.shape, ElementsAre(24, 8));
    EXPECT_EQ(down.muster, "block1.experts.down.weight");
    EXPECT_EQ(down.first_row, e * 8);
    EXPECT_THAT(down.shape, ElementsAre(8, 24));
  }
  EXPECT_EQ(tensors.at("model.layers.0.block_sparse_moe.gate.weight").muster,
            "block0.router.weight");
  const auto shapes = Shapes(HuggingFaceFamily::kMixtral, LayoutMixtral());
  EXPECT_EQ(shapes.size(), 1u + 2 * 7 + 2);
  EXPECT_THAT(shapes.at("block0.router.weight"), ElementsAre(4, 8));
  EXPECT_THAT(shapes.at("block0.experts.up.weight"), ElementsAre(4 * 48, 8));
  EXPECT_THAT(shapes.at("block0.experts.down.weight"), ElementsAre(4 * 8, 24));
  EXPECT_EQ(shapes.count("block0.up.weight"), 0u);
}

TEST(TransformerLayoutTest, FusedExpertsAreTheSameMatrices) {
  for (const auto& [family, spec] : {std::pair(HuggingFaceFamily::kMixtral, LayoutMixtral()),
                                     std::pair(HuggingFaceFamily::kQwen2Moe, LayoutQwen2Moe())}) {
    const auto fused = HuggingFaceTensors(family, spec, ExpertFiles::kFused);
    int matrices = 0;
    for (const HuggingFaceTensor& tensor : fused) {
      EXPECT_THAT(tensor.name, Not(HasSubstr("block_sparse_moe")));
      matrices += IsOfFusedExperts(tensor.name);
      if (tensor.name != "model.layers.0.mlp.experts.gate_up_proj") continue;
      EXPECT_THAT(tensor.shape, ElementsAre(4, 2 * spec.moe().expert_width(), 8));
    }
    EXPECT_EQ(matrices, family == HuggingFaceFamily::kMixtral ? 2 : 1);
    const auto apart = HuggingFaceTensors(family, spec);
    for (const HuggingFaceTensor& tensor : apart) EXPECT_FALSE(IsOfFusedExperts(tensor.name));
    const auto of_fused = MusterTensors(fused);
    const auto of_apart = MusterTensors(apart);
    ASSERT_EQ(of_fused.size(), of_apart.size());
    for (size_t i = 0; i < of_fused.size(); ++i) {
      EXPECT_EQ(of_fused[i].name, of_apart[i].name);
      EXPECT_EQ(of_fused[i].shape, of_apart[i].shape) << of_fused[i].name;
    }
  }
}

TEST(TransformerLayoutTest, DenseLayersAndSharedExpertsOfTheOtherFamilies) {
  ASSERT_EQ(FamilyOf(LayoutQwen2Moe()).value(), HuggingFaceFamily::kQwen2Moe);
  EXPECT_THAT(LayersWithExperts(LayoutQwen2Moe()), ElementsAre(true, false));
  EXPECT_THAT(LayersWithExperts(LayoutLlama()), ElementsAre(false, false));
  for (const auto& [family, shared] :
       {std::pair(HuggingFaceFamily::kQwen2Moe, "model.layers.0.mlp.shared_expert"),
        std::pair(HuggingFaceFamily::kDeepseekV3, "model.layers.0.mlp.shared_experts")}) {
    const auto tensors = ByName(family, LayoutQwen2Moe());
    const std::string name = shared;
    EXPECT_EQ(tensors.at(name + ".up_proj.weight").first_row, 5);
    EXPECT_EQ(tensors.at(name + ".up_proj.weight").muster, "block0.shared.up.weight");
    EXPECT_THAT(tensors.at(name + ".down_proj.weight").shape, ElementsAre(8, 5));
    EXPECT_EQ(tensors.at(name + "_gate.weight").muster, "block0.shared_gate.weight");
    EXPECT_EQ(tensors.at("model.layers.0.mlp.experts.3.up_proj.weight").first_row, 3 * 20 + 10);
    EXPECT_EQ(tensors.at("model.layers.1.mlp.up_proj.weight").muster, "block1.up.weight");
    EXPECT_EQ(tensors.count("model.layers.1.mlp.gate.weight"), 0u);
  }
  const auto shapes = Shapes(HuggingFaceFamily::kQwen2Moe, LayoutQwen2Moe());
  EXPECT_THAT(shapes.at("block0.experts.up.weight"), ElementsAre(4 * 20, 8));
  EXPECT_THAT(shapes.at("block0.shared.up.weight"), ElementsAre(10, 8));
  EXPECT_THAT(shapes.at("block0.shared_gate.weight"), ElementsAre(1, 8));
  EXPECT_THAT(shapes.at("block1.up.weight"), ElementsAre(48, 8));
  Spec plain = LayoutQwen2Moe();
  plain.mutable_moe()->set_shared_gate(false);
  EXPECT_EQ(ByName(HuggingFaceFamily::kDeepseekV3, plain)
                .count("model.layers.0.mlp.shared_experts_gate.weight"),
            0u);
}

TEST(TransformerLayoutTest, ExpertsOfNoFamilyAreRefusedByWhatDiffers) {
  const auto error = [](Spec spec, const std::function<void(v1::MoeSpec&)>& change) {
    change(*spec.mutable_moe());
    return std::string(FamilyOf(spec).status().message());
  };
  using Moe = v1::MoeSpec;
  EXPECT_THAT(error(LayoutMixtral(), [](Moe& moe) { moe.set_normalize(false); }),
              HasSubstr("from Mixtral's by moe.normalize false (it has true); from Qwen2-MoE's by "
                        "moe.shared_width 0 (it has more), moe.shared_gate false (it has true)"));
  EXPECT_THAT(error(LayoutMixtral(), [](Moe& moe) { moe.add_dense_layers(0); }),
              HasSubstr("moe.dense_layers 0 (it has none);"));
  EXPECT_THAT(error(LayoutQwen2Moe(), [](Moe& moe) { moe.set_shared_gate(false); }),
              HasSubstr("from Qwen2-MoE's by moe.shared_gate false (it has true)"));
  for (const Spec& spec : {LayoutMixtral(), LayoutQwen2Moe()}) {
    EXPECT_THAT(error(spec, [](Moe& moe) { moe.set_scores(Moe::SIGMOID); }),
                HasSubstr("from Qwen2-MoE's by moe.scores SIGMOID (it has SOFTMAX)"));
    EXPECT_THAT(error(spec, [](Moe& moe) { moe.set_selection_bias(true); }),
                HasSubstr("from Qwen2-MoE's by moe.selection_bias true (it has false)"));
    EXPECT_THAT(error(spec, [](Moe& moe) { moe.set_scaling(2.5f); }),
                HasSubstr("from Qwen2-MoE's by moe.scaling 2.5 (it has 1)"));
    EXPECT_THAT(error(spec, [](Moe& moe) { moe.set_groups(2); }),
                HasSubstr("from Qwen2-MoE's by moe.groups 2 (it has 0)"));
    EXPECT_EQ(error(spec, [](Moe& moe) { moe.set_groups(1); }), "");
    Spec gelu = spec;
    gelu.set_activation(Spec::GELU);
    EXPECT_THAT(std::string(FamilyOf(gelu).status().message()),
                HasSubstr("from Qwen2-MoE's by activation GELU (it has SWIGLU)"));
  }
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
  spec = LayoutLlama();
  spec.set_query_key_norm(Spec::WHOLE_WIDTH);
  EXPECT_THAT(std::string(FamilyOf(spec).status().message()),
              HasSubstr("from Llama's by query_key_norm WHOLE_WIDTH (it has NONE)"));
  spec.set_query_key_norm(Spec::PER_HEAD);
  spec.set_attention_biases(true);
  EXPECT_THAT(std::string(FamilyOf(spec).status().message()),
              HasSubstr("from Qwen 3's by attention_biases true (it has false)"));
  spec = LayoutLlama();
  spec.set_sliding_window(4);
  EXPECT_EQ(FamilyOf(spec).value(), HuggingFaceFamily::kMistral);
  spec.add_whole_layers(0);
  EXPECT_THAT(std::string(FamilyOf(spec).status().message()),
              HasSubstr("from Mistral's by whole_layers 0 (it has none)"));
  spec.set_attention_biases(true);
  EXPECT_EQ(FamilyOf(spec).value(), HuggingFaceFamily::kQwen2);
  v1::RotaryScaling& scaling = *spec.mutable_rotary_scaling();
  scaling.set_type(v1::RotaryScaling::DYNAMIC);
  scaling.set_original_context(spec.context());
  EXPECT_EQ(FamilyOf(spec).value(), HuggingFaceFamily::kQwen2);
  scaling.set_original_context(spec.context() - 1);
  EXPECT_THAT(std::string(FamilyOf(spec).status().message()),
              HasSubstr("the original_context of DYNAMIC"));
  spec = LayoutGpt2();
  spec.set_head_width(2);
  EXPECT_THAT(std::string(FamilyOf(spec).status().message()),
              HasSubstr("from GPT-2's by head_width 2 (it has 4)"));
  spec = LayoutMixtral();
  spec.set_attention_biases(true);
  EXPECT_THAT(std::string(FamilyOf(spec).status().message()),
              HasSubstr("from Mixtral's by attention_biases true (it has false)"));
  spec.set_query_key_norm(Spec::WHOLE_WIDTH);
  spec.mutable_moe()->add_dense_layers(0);
  spec.set_head_width(3);
  EXPECT_THAT(std::string(FamilyOf(spec).status().message()),
              HasSubstr("of OLMoE's shape; this one differs from it by attention_biases true (it "
                        "has false), moe.dense_layers 0 (it has none), head_width 3 (it has 2)"));
}

}  // namespace
}  // namespace muster
