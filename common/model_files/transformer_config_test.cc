#include "common/model_files/transformer_config.h"

#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using Spec = v1::TransformerSpec;

Spec Gpt2() {
  Spec spec;
  spec.set_layers(12);
  spec.set_width(768);
  spec.set_heads(12);
  spec.set_context(1024);
  FillTransformerDefaults(50257, spec);
  return spec;
}

Spec Llama() {
  Spec spec = Gpt2();
  spec.set_kv_heads(4);
  spec.set_norm(Spec::RMS_NORM);
  spec.set_positions(Spec::ROTARY);
  spec.set_activation(Spec::SWIGLU);
  spec.set_no_biases(true);
  spec.set_separate_head(true);
  spec.set_rotary_base(500000);
  spec.set_norm_epsilon(1e-6f);
  return spec;
}

std::string ErrorOf(const Json& json) {
  Spec spec;
  return std::string(ParseTransformerConfig(json.dump(), "c/config.json", spec).message());
}

TEST(TransformerConfigTest, WhatIsWrittenIsReadBack) {
  for (const bool separate_head : {false, true}) {
    for (const HuggingFaceFamily family : {HuggingFaceFamily::kGpt2, HuggingFaceFamily::kLlama}) {
      Spec spec = family == HuggingFaceFamily::kGpt2 ? Gpt2() : Llama();
      spec.set_separate_head(separate_head);
      spec.set_attention_dropout(0.1f);
      if (family == HuggingFaceFamily::kGpt2) spec.set_dropout(0.1f);
      Spec read;
      const absl::Status status =
          ParseTransformerConfig(WriteTransformerConfig(family, spec, 7), "x", read);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(read.DebugString(), spec.DebugString());
    }
  }
}

TEST(TransformerConfigTest, HasTheFieldsThatOthersRead) {
  Json json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kGpt2, Gpt2(), 50256));
  EXPECT_EQ(json["model_type"], "gpt2");
  EXPECT_EQ(json["architectures"][0], "GPT2LMHeadModel");
  EXPECT_EQ(json["n_embd"], 768);
  EXPECT_EQ(json["vocab_size"], 50257);
  EXPECT_EQ(json["eos_token_id"], 50256);
  EXPECT_EQ(json["layer_norm_epsilon"], 1e-5);
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kLlama, Llama(), std::nullopt));
  EXPECT_EQ(json["model_type"], "llama");
  EXPECT_EQ(json["num_key_value_heads"], 4);
  EXPECT_EQ(json["rope_theta"], 500000);
  EXPECT_EQ(json["tie_word_embeddings"], false);
  EXPECT_TRUE(json["eos_token_id"].is_null());
}

TEST(TransformerConfigTest, ReadsWhatPublishedFilesSay) {
  Spec spec;
  // As GPT-2's own file has it.
  ASSERT_TRUE(ParseTransformerConfig(
                  R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],
                      "attn_pdrop":0.1,"bos_token_id":50256,"layer_norm_epsilon":1e-05,
                      "model_type":"gpt2","n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":12,
                      "n_positions":1024,"vocab_size":50257})",
                  "x", spec)
                  .ok());
  Spec gpt2 = Gpt2();
  gpt2.set_attention_dropout(0.1f);
  EXPECT_EQ(spec.DebugString(), gpt2.DebugString());
  // As newer Llama files have it.
  ASSERT_TRUE(ParseTransformerConfig(
                  R"({"model_type":"llama","hidden_size":64,"intermediate_size":128,"head_dim":16,
                      "num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":32,
                      "vocab_size":100,"rms_norm_eps":1e-05,"hidden_act":"silu",
                      "rope_parameters":{"rope_type":"default","rope_theta":250000.0},
                      "tie_word_embeddings":true})",
                  "x", spec)
                  .ok());
  EXPECT_EQ(spec.kv_heads(), 4u);
  EXPECT_EQ(spec.rotary_base(), 250000);
  EXPECT_FALSE(spec.separate_head());
}

TEST(TransformerConfigTest, OtherComputationsAreRefusedByName) {
  const Json gpt2 = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kGpt2, Gpt2(), 1));
  const Json llama = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kLlama, Llama(), 1));
  const auto changed = [](Json json, const char* field, const Json& value) {
    json[field] = value;
    return ErrorOf(json);
  };
  EXPECT_THAT(changed(gpt2, "model_type", "bert"),
              HasSubstr("c/config.json: model_type is \"bert\"; only \"gpt2\" and \"llama\""));
  EXPECT_THAT(changed(gpt2, "activation_function", "relu"),
              HasSubstr("activation_function is \"relu\""));
  EXPECT_THAT(changed(gpt2, "scale_attn_by_inverse_layer_idx", true),
              HasSubstr("scale_attn_by_inverse_layer_idx is true"));
  EXPECT_THAT(changed(gpt2, "resid_pdrop", 1), HasSubstr("resid_pdrop is 1"));
  EXPECT_THAT(changed(gpt2, "attn_pdrop", -1), HasSubstr("attn_pdrop is -1"));
  EXPECT_THAT(changed(gpt2, "n_layer", 0), HasSubstr("n_layer is 0"));
  EXPECT_THAT(changed(gpt2, "n_embd", "wide"), HasSubstr("n_embd is \"wide\""));
  EXPECT_THAT(changed(gpt2, "n_head", 7), HasSubstr("width of 768 with 7 heads"));
  EXPECT_THAT(changed(llama, "rope_scaling", {{"type", "linear"}}), HasSubstr("rope_scaling"));
  EXPECT_THAT(changed(llama, "attention_bias", true), HasSubstr("attention_bias is true"));
  EXPECT_THAT(changed(llama, "hidden_act", "gelu"), HasSubstr("hidden_act is \"gelu\""));
  EXPECT_THAT(changed(llama, "head_dim", 128), HasSubstr("head_dim is 128"));
  EXPECT_THAT(changed(llama, "rms_norm_eps", -1), HasSubstr("rms_norm_eps is -1"));
  EXPECT_THAT(changed(llama, "rope_parameters", {{"rope_type", "yarn"}}), HasSubstr("yarn"));
  EXPECT_THAT(ErrorOf(Json::array()), HasSubstr("no JSON object"));
}

}  // namespace
}  // namespace muster
