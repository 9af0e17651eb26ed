#include "common/model_files/expert_config.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/model_files/config_fields.h"
#include "common/model_files/test_weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Family = HuggingFaceFamily;
using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Moe = v1::MoeSpec;
using Spec = v1::TransformerSpec;

// A specification as it is when experts are read.
Spec Before(uint32_t layers) {
  Spec spec;
  spec.set_layers(layers);
  spec.set_feed_forward(100);
  return spec;
}

Moe Read(Family family, const Json& json, uint32_t layers = 4) {
  Spec spec = Before(layers);
  ConfigFields fields(json, "c");
  ReadExperts(family, fields, spec);
  fields.RefuseOthers();
  EXPECT_TRUE(fields.status().ok()) << fields.status();
  return spec.moe();
}

std::string ErrorOf(Family family, const Json& json, uint32_t layers = 4) {
  Spec spec = Before(layers);
  ConfigFields fields(json, "c");
  ReadExperts(family, fields, spec);
  return std::string(fields.status().message());
}

// The keys that must be there.
Json Least(Family family) {
  switch (family) {
    case Family::kMixtral:
      return {{"num_local_experts", 8}, {"num_experts_per_tok", 2}};
    case Family::kOlmoe:
      return {{"num_experts", 8}, {"num_experts_per_tok", 2}};
    case Family::kQwen2Moe:
      return {{"num_experts", 8},
              {"num_experts_per_tok", 2},
              {"moe_intermediate_size", 30},
              {"shared_expert_intermediate_size", 50}};
    case Family::kQwen3Moe:
      return {{"num_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 30}};
    default:
      return {{"n_routed_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 30}};
  }
}

TEST(ExpertConfigTest, WhatEachFamilyLeavesOut) {
  struct Case {
    Family family;
    uint32_t width;
    uint32_t shared;
    bool normalize;
    float auxiliary;
  };
  for (const Case& each : {Case{Family::kMixtral, 100, 0, true, 0.0005f},
                           Case{Family::kQwen2Moe, 30, 50, false, 0.0005f},
                           Case{Family::kQwen3Moe, 30, 0, false, 0.0005f},
                           Case{Family::kOlmoe, 100, 0, false, 0.005f}}) {
    const Moe moe = Read(each.family, Least(each.family));
    EXPECT_EQ(moe.experts(), 8u);
    EXPECT_EQ(moe.top_k(), 2u);
    EXPECT_EQ(moe.expert_width(), each.width);
    EXPECT_EQ(moe.shared_width(), each.shared);
    EXPECT_EQ(moe.shared_gate(), each.shared > 0);
    EXPECT_EQ(moe.scores(), Moe::SOFTMAX);
    EXPECT_EQ(moe.normalize(), each.normalize);
    EXPECT_EQ(moe.scaling(), 1);
    EXPECT_EQ(moe.groups(), 0u);
    EXPECT_EQ(moe.auxiliary_loss(), each.auxiliary);
    EXPECT_EQ(moe.auxiliary_scope(), Moe::MICRO_BATCH);
    EXPECT_EQ(moe.dense_layers_size(), 0);
  }
  const Moe moe = Read(Family::kDeepseekV3, Least(Family::kDeepseekV3));
  EXPECT_EQ(moe.expert_width(), 30u);
  EXPECT_EQ(moe.shared_width(), 0u);
  EXPECT_EQ(moe.scores(), Moe::SIGMOID);
  EXPECT_TRUE(moe.normalize());
  EXPECT_EQ(moe.scaling(), 2.5f);
  EXPECT_EQ(moe.groups(), 8u);
  EXPECT_EQ(moe.top_groups(), 4u);
  EXPECT_EQ(moe.auxiliary_loss(), 0);
  EXPECT_THAT(moe.dense_layers(), ElementsAre(0, 1, 2));
}

TEST(ExpertConfigTest, ReadsWhatFilesSay) {
  for (const Family family : {Family::kQwen2Moe, Family::kQwen3Moe, Family::kOlmoe}) {
    Json json = Least(family);
    json["norm_topk_prob"] = true;
    json["router_aux_loss_coef"] = 0;
    EXPECT_TRUE(Read(family, json).normalize());
    EXPECT_EQ(Read(family, json).auxiliary_loss(), 0);
    // Some versions write it so.
    json.erase("num_experts");
    json["num_local_experts"] = 16;
    EXPECT_EQ(Read(family, json).experts(), 16u);
  }
  Json json = Least(Family::kDeepseekV3);
  json.update({{"scoring_func", "softmax"},
               {"topk_method", "noaux_tc"},
               {"n_group", 1},
               {"topk_group", 1},
               {"norm_topk_prob", false},
               {"routed_scaling_factor", 16},
               {"n_shared_experts", 2},
               {"first_k_dense_replace", 0},
               {"aux_loss_alpha", 0.001},
               {"seq_aux", false}});
  const Moe moe = Read(Family::kDeepseekV3, json);
  EXPECT_EQ(moe.scores(), Moe::SOFTMAX);
  EXPECT_EQ(moe.groups(), 0u) << "one group is none";
  EXPECT_EQ(moe.top_groups(), 0u);
  EXPECT_FALSE(moe.normalize());
  EXPECT_EQ(moe.scaling(), 16);
  EXPECT_EQ(moe.shared_width(), 60u);
  EXPECT_FALSE(moe.shared_gate());
  EXPECT_EQ(moe.dense_layers_size(), 0);
  EXPECT_EQ(moe.auxiliary_loss(), 0.001f) << "of each layer, over top_k";
  EXPECT_EQ(moe.auxiliary_scope(), Moe::MICRO_BATCH);
}

TEST(ExpertConfigTest, DenseLayersAreThoseOfEitherKey) {
  for (const Family family : {Family::kQwen2Moe, Family::kQwen3Moe}) {
    Json json = Least(family);
    json["decoder_sparse_step"] = 2;
    EXPECT_THAT(Read(family, json, 5).dense_layers(), ElementsAre(0, 2, 4));
    json["mlp_only_layers"] = Json::array({3});
    EXPECT_THAT(Read(family, json, 5).dense_layers(), ElementsAre(0, 2, 3, 4));
    EXPECT_EQ(Read(family, json, 5).auxiliary_loss(), 0.002f) << "one layer has experts";
    json["mlp_only_layers"] = Json::array({3, 1});
    EXPECT_THAT(ErrorOf(family, json, 5),
                HasSubstr("mlp_only_layers is [3,1]; no layer has experts"));
    json["mlp_only_layers"] = Json::array();
    json["decoder_sparse_step"] = 9;
    EXPECT_THAT(ErrorOf(family, json, 5),
                HasSubstr("decoder_sparse_step is 9; no layer has experts"));
  }
  Json json = Least(Family::kDeepseekV3);
  EXPECT_THAT(ErrorOf(Family::kDeepseekV3, json, 3),
              HasSubstr("first_k_dense_replace is null; no layer has experts"));
}

TEST(ExpertConfigTest, WrongNumbersAreRefusedByName) {
  const auto changed = [](Family family, const char* key, const Json& value) {
    Json json = Least(family);
    json[key] = value;
    return ErrorOf(family, json);
  };
  EXPECT_THAT(changed(Family::kMixtral, "num_local_experts", 0),
              HasSubstr("num_local_experts is 0; expected a whole number from 1 to 1024"));
  EXPECT_THAT(changed(Family::kMixtral, "num_local_experts", 1u << 31),
              HasSubstr("num_local_experts is 2147483648"));
  EXPECT_THAT(changed(Family::kMixtral, "num_experts_per_tok", 9),
              HasSubstr("num_experts_per_tok is 9; expected a whole number from 1 to 8"));
  EXPECT_THAT(changed(Family::kMixtral, "router_aux_loss_coef", -1),
              HasSubstr("router_aux_loss_coef is -1; expected a number of at least 0"));
  EXPECT_THAT(changed(Family::kQwen2Moe, "shared_expert_intermediate_size", nullptr),
              HasSubstr("shared_expert_intermediate_size is null"));
  EXPECT_THAT(changed(Family::kQwen3Moe, "moe_intermediate_size", "30"),
              HasSubstr("moe_intermediate_size is \"30\""));
  EXPECT_THAT(changed(Family::kQwen3Moe, "norm_topk_prob", 1), HasSubstr("norm_topk_prob is 1"));
  EXPECT_THAT(changed(Family::kQwen3Moe, "decoder_sparse_step", 0),
              HasSubstr("decoder_sparse_step is 0"));
  for (const Json& layers :
       {Json(3), Json::array({4}), Json::array({-1}), Json::array({1.5}), Json::array({"0"})}) {
    EXPECT_THAT(changed(Family::kQwen3Moe, "mlp_only_layers", layers),
                HasSubstr("expected a list of whole numbers from 0 to below 4"));
  }
  EXPECT_THAT(changed(Family::kDeepseekV3, "scoring_func", "tanh"), HasSubstr("scoring_func is"));
  EXPECT_THAT(changed(Family::kDeepseekV3, "n_group", 3),
              HasSubstr("n_group is 3; expected a divisor of the 8 experts"));
  EXPECT_THAT(changed(Family::kDeepseekV3, "topk_group", 9), HasSubstr("topk_group is 9"));
  EXPECT_THAT(changed(Family::kDeepseekV3, "topk_method", "greedy"), HasSubstr("topk_method is"));
  EXPECT_THAT(changed(Family::kDeepseekV3, "moe_layer_freq", 2), HasSubstr("moe_layer_freq is 2"));
  EXPECT_THAT(changed(Family::kDeepseekV3, "routed_scaling_factor", 0),
              HasSubstr("routed_scaling_factor is 0"));
  EXPECT_EQ(ErrorOf(Family::kMixtral, Least(Family::kMixtral)), "");
  Json none = Least(Family::kMixtral);
  none.erase("num_local_experts");
  EXPECT_THAT(ErrorOf(Family::kMixtral, none), HasSubstr("num_local_experts is null"));
  Json wide = Least(Family::kDeepseekV3);
  wide["moe_intermediate_size"] = 1 << 18;
  wide["n_shared_experts"] = 1024;
  EXPECT_THAT(ErrorOf(Family::kDeepseekV3, wide),
              HasSubstr("n_shared_experts is 1024; together they are 268435456 wide"));
}

// The published loss: E times the sum over experts of (choices over tokens) times (mean
// probability), over the tokens of all layers.
double PublishedLoss(const std::vector<std::vector<double>>& choices,
                     const std::vector<std::vector<double>>& probabilities) {
  const double layers = static_cast<double>(choices.size());
  double loss = 0;
  for (size_t e = 0; e < choices[0].size(); ++e) {
    double choice = 0;
    double probability = 0;
    for (size_t l = 0; l < choices.size(); ++l) {
      choice += choices[l][e] / layers;
      probability += probabilities[l][e] / layers;
    }
    loss += choice * probability;
  }
  return loss * static_cast<double>(choices[0].size());
}

// Muster's, as MoeSpec.auxiliary_loss tells: of each layer, and choices over tokens and top_k.
double LayersLosses(const std::vector<std::vector<double>>& choices,
                    const std::vector<std::vector<double>>& probabilities, double top_k) {
  double loss = 0;
  for (size_t l = 0; l < choices.size(); ++l) {
    for (size_t e = 0; e < choices[l].size(); ++e) {
      loss += choices[l][e] / top_k * probabilities[l][e];
    }
  }
  return loss * static_cast<double>(choices[0].size());
}

// Where all layers choose in the same proportions the two losses are one, for any probabilities,
// and so are their gradients.
TEST(ExpertConfigTest, TheCoefficientIsThatOfTheSameLoss) {
  // Choices per token of 3 experts, two of them for each.
  const std::vector<std::vector<double>> choices(4, {0.9, 0.7, 0.4});
  const std::vector<std::vector<double>> probabilities = {
      {0.5, 0.3, 0.2}, {0.1, 0.2, 0.7}, {0.3, 0.3, 0.4}, {0.6, 0.1, 0.3}};
  const Json json = {
      {"num_local_experts", 3}, {"num_experts_per_tok", 2}, {"router_aux_loss_coef", 0.02}};
  const double muster = Read(Family::kMixtral, json).auxiliary_loss();
  EXPECT_NEAR(muster * LayersLosses(choices, probabilities, 2),
              0.02 * PublishedLoss(choices, probabilities), 1e-9);
}

TEST(ExpertConfigTest, ACoefficientIsWrittenAsItWasRead) {
  for (const double coefficient : {0.0, 0.001, 0.02, 0.01, 0.0123456, 1.0, 3.0}) {
    for (uint32_t layers = 1; layers < 40; ++layers) {
      for (const uint32_t top_k : {1, 2, 3, 6, 7, 8}) {
        Json json = Least(Family::kMixtral);
        json["num_experts_per_tok"] = top_k;
        json["router_aux_loss_coef"] = coefficient;
        Spec spec = Before(layers);
        *spec.mutable_moe() = Read(Family::kMixtral, json, layers);
        Json written;
        WriteExperts(Family::kMixtral, spec, written);
        ASSERT_EQ(written["router_aux_loss_coef"], coefficient) << layers << " " << top_k;
      }
    }
  }
}

TEST(ExpertConfigTest, TheNoteSaysHowTheCoefficientCameAbout) {
  Spec spec = SmallQwen2Moe();
  EXPECT_EQ(
      ExpertsNote(spec),
      "moe.auxiliary_loss is 0.02: the file's router_aux_loss_coef 0.02, times top_k 2, over "
      "2 layers with experts; Muster divides choices by top_k, and adds the losses of layers");
  spec.mutable_moe()->set_auxiliary_loss(0);
  EXPECT_EQ(ExpertsNote(spec), "");
  EXPECT_EQ(ExpertsNote(SmallLlama()), "");
}

}  // namespace
}  // namespace muster
