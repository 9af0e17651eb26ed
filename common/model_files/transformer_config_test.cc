#include "common/model_files/transformer_config.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// A token that begins texts and ends them.
FrameTokens End(int32_t token) { return {token, {token}}; }

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

Spec Mixtral() {
  Spec spec = Llama();
  v1::MoeSpec& moe = *spec.mutable_moe();
  moe.set_experts(8);
  moe.set_top_k(2);
  moe.set_normalize(true);
  moe.set_auxiliary_loss(0.003f);
  moe.set_auxiliary_scope(v1::MoeSpec::MICRO_BATCH);
  FillTransformerDefaults(50257, spec);
  return spec;
}

Spec Qwen2Moe() {
  Spec spec = Mixtral();
  v1::MoeSpec& moe = *spec.mutable_moe();
  moe.set_expert_width(96);
  moe.set_normalize(false);
  moe.set_shared_width(160);
  moe.set_shared_gate(true);
  for (const uint32_t layer : {0, 5, 11}) moe.add_dense_layers(layer);
  return spec;
}

Spec Mistral() {
  Spec spec = Llama();
  spec.set_sliding_window(300);
  return spec;
}

Spec Qwen2() {
  Spec spec = Llama();
  spec.set_attention_biases(true);
  return spec;
}

// A model whose heads are wider together than it is, with the angles that Qwen gives for long
// contexts.
Spec Qwen3() {
  Spec spec = Llama();
  spec.set_head_width(128);
  spec.set_query_key_norm(Spec::PER_HEAD);
  v1::RotaryScaling& scaling = *spec.mutable_rotary_scaling();
  scaling.set_type(v1::RotaryScaling::YARN);
  scaling.set_factor(4);
  scaling.set_original_context(512);
  FillTransformerDefaults(50257, spec);
  return spec;
}

Spec Qwen3Moe() {
  Spec spec = Mixtral();
  spec.set_query_key_norm(Spec::PER_HEAD);
  spec.mutable_moe()->set_expert_width(96);
  spec.mutable_moe()->add_dense_layers(3);
  return spec;
}

Spec Olmoe() {
  Spec spec = Mixtral();
  spec.set_query_key_norm(Spec::WHOLE_WIDTH);
  spec.mutable_moe()->set_normalize(false);
  return spec;
}

std::string ErrorOf(const Json& json) {
  Spec spec;
  return std::string(ParseTransformerConfig(json.dump(), "c/config.json", spec).message());
}

TEST(TransformerConfigTest, WhatIsWrittenIsReadBack) {
  for (const bool separate_head : {false, true}) {
    for (Spec spec : {Gpt2(), Llama(), Mistral(), Qwen2(), Qwen3(), Mixtral(), Qwen2Moe(),
                      Qwen3Moe(), Olmoe()}) {
      const HuggingFaceFamily family = *FamilyOf(spec);
      spec.set_separate_head(separate_head);
      spec.set_attention_dropout(0.1f);
      if (family == HuggingFaceFamily::kGpt2) spec.set_dropout(0.1f);
      Spec read;
      const absl::Status status =
          ParseTransformerConfig(WriteTransformerConfig(family, spec, End(7)), "x", read);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(read.DebugString(), spec.DebugString());
    }
  }
}

TEST(TransformerConfigTest, HasTheFieldsThatOthersRead) {
  Json json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kGpt2, Gpt2(), End(50256)));
  EXPECT_EQ(json["model_type"], "gpt2");
  EXPECT_EQ(json["architectures"][0], "GPT2LMHeadModel");
  EXPECT_EQ(json["n_embd"], 768);
  EXPECT_EQ(json["vocab_size"], 50257);
  EXPECT_EQ(json["eos_token_id"], 50256);
  EXPECT_EQ(json["layer_norm_epsilon"], 1e-5);
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kLlama, Llama(), {}));
  EXPECT_EQ(json["model_type"], "llama");
  EXPECT_EQ(json["num_key_value_heads"], 4);
  EXPECT_EQ(json["rope_theta"], 500000);
  EXPECT_EQ(json["tie_word_embeddings"], false);
  EXPECT_TRUE(json["eos_token_id"].is_null());
}

TEST(TransformerConfigTest, HasTheFieldsOfModelsWithExperts) {
  Json json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kMixtral, Mixtral(), End(2)));
  EXPECT_EQ(json["model_type"], "mixtral");
  EXPECT_EQ(json["architectures"][0], "MixtralForCausalLM");
  EXPECT_EQ(json["num_local_experts"], 8);
  EXPECT_EQ(json["num_experts_per_tok"], 2);
  EXPECT_EQ(json["intermediate_size"], 3072);
  EXPECT_EQ(json["router_aux_loss_coef"], 0.018) << "times 12 layers over top_k 2";
  EXPECT_EQ(json.count("norm_topk_prob"), 0u);
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kQwen2Moe, Qwen2Moe(), End(2)));
  EXPECT_EQ(json["model_type"], "qwen2_moe");
  EXPECT_EQ(json["architectures"][0], "Qwen2MoeForCausalLM");
  EXPECT_EQ(json["num_experts"], 8);
  EXPECT_EQ(json["intermediate_size"], 3072);
  EXPECT_EQ(json["moe_intermediate_size"], 96);
  EXPECT_EQ(json["shared_expert_intermediate_size"], 160);
  EXPECT_EQ(json["norm_topk_prob"], false);
  EXPECT_EQ(json["mlp_only_layers"], Json({0, 5, 11}));
  EXPECT_EQ(json["router_aux_loss_coef"], 0.0135) << "times 9 layers over top_k 2";
  EXPECT_EQ(json["qkv_bias"], false) << "left out it would mean true";
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kQwen3Moe, Qwen3Moe(), End(2)));
  EXPECT_EQ(json["model_type"], "qwen3_moe");
  EXPECT_EQ(json["architectures"][0], "Qwen3MoeForCausalLM");
  EXPECT_EQ(json["num_experts"], 8);
  EXPECT_EQ(json["moe_intermediate_size"], 96);
  EXPECT_EQ(json["norm_topk_prob"], true);
  EXPECT_EQ(json["mlp_only_layers"], Json({3}));
  EXPECT_EQ(json.count("shared_expert_intermediate_size"), 0u);
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kOlmoe, Olmoe(), End(2)));
  EXPECT_EQ(json["model_type"], "olmoe");
  EXPECT_EQ(json["architectures"][0], "OlmoeForCausalLM");
  EXPECT_EQ(json["intermediate_size"], 3072);
  EXPECT_EQ(json["norm_topk_prob"], false);
  EXPECT_EQ(json.count("head_dim"), 0u);
}

TEST(TransformerConfigTest, HasTheFieldsOfOtherAttention) {
  Json json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kQwen2, Qwen2(), End(2)));
  EXPECT_EQ(json["model_type"], "qwen2");
  EXPECT_EQ(json["architectures"][0], "Qwen2ForCausalLM");
  EXPECT_EQ(json["use_sliding_window"], false);
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kQwen3, Qwen3(), End(2)));
  EXPECT_EQ(json["model_type"], "qwen3");
  EXPECT_EQ(json["architectures"][0], "Qwen3ForCausalLM");
  EXPECT_EQ(json["head_dim"], 128);
  EXPECT_EQ(json["attention_bias"], false);
  EXPECT_EQ(json["rope_scaling"], Json({{"rope_type", "yarn"},
                                        {"factor", 4.0},
                                        {"original_max_position_embeddings", 512},
                                        {"beta_fast", 32.0},
                                        {"beta_slow", 1.0}}));
}

TEST(TransformerConfigTest, AttentionIsThatOfTheFamily) {
  Json json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kQwen2Moe, Qwen2Moe(), End(2)));
  Spec spec;
  ASSERT_TRUE(ParseTransformerConfig(json.dump(), "x", spec).ok());
  EXPECT_FALSE(spec.attention_biases());
  json.erase("qkv_bias");
  ASSERT_TRUE(ParseTransformerConfig(json.dump(), "x", spec).ok());
  EXPECT_TRUE(spec.attention_biases()) << "left out it means true";
  json["attention_bias"] = true;
  EXPECT_THAT(ErrorOf(json), HasSubstr("attention_bias is true"));
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kQwen3, Qwen3(), End(2)));
  json.erase("head_dim");
  ASSERT_TRUE(ParseTransformerConfig(json.dump(), "x", spec).ok());
  EXPECT_EQ(spec.head_width(), 128u) << "left out it means 128";
  EXPECT_EQ(spec.query_key_norm(), Spec::PER_HEAD);
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kOlmoe, Olmoe(), End(2)));
  json["clip_qkv"] = 8;
  EXPECT_THAT(ErrorOf(json), HasSubstr("clip_qkv is 8"));
  json["clip_qkv"] = nullptr;
  json["head_dim"] = 128;
  EXPECT_THAT(ErrorOf(json), HasSubstr("head_dim is 128; only 64 is understood"));
  // Comes before whatever else may be wrong.
  json["model_type"] = "deepseek_v3";
  json["quantization_config"] = {{"quant_method", "fp8"}};
  EXPECT_THAT(ErrorOf(json), AllOf(HasSubstr("model_type is \"deepseek_v3\"; "),
                                   HasSubstr("multi-head latent attention")));
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
  const Json gpt2 = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kGpt2, Gpt2(), End(1)));
  const Json llama =
      Json::parse(WriteTransformerConfig(HuggingFaceFamily::kLlama, Llama(), End(1)));
  const auto changed = [](Json json, const char* field, const Json& value) {
    json[field] = value;
    return ErrorOf(json);
  };
  EXPECT_THAT(changed(gpt2, "model_type", "bert"),
              HasSubstr("c/config.json: model_type is \"bert\"; only \"gpt2\", \"llama\", "
                        "\"mistral\", \"qwen2\", \"qwen3\", \"mixtral\", \"qwen2_moe\", "
                        "\"qwen3_moe\" and \"olmoe\" are"));
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
  EXPECT_THAT(changed(llama, "head_dim", 512), HasSubstr("head_dim is 512"));
  EXPECT_THAT(changed(llama, "rms_norm_eps", -1), HasSubstr("rms_norm_eps is -1"));
  EXPECT_THAT(ErrorOf(Json::array()), HasSubstr("no JSON object"));
}

// The keys that files of known models have, with the sizes of a small one.
TEST(TransformerConfigTest, AllKeysOfPublishedFilesAreKnown) {
  const char* const files[] = {
      // GPT-2's, and what a training run saved of it later.
      R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],"attn_pdrop":0.1,
          "bos_token_id":50256,"embd_pdrop":0.1,"eos_token_id":50256,"initializer_range":0.02,
          "layer_norm_epsilon":1e-05,"model_type":"gpt2","n_ctx":1024,"n_embd":64,"n_head":4,
          "n_layer":2,"n_positions":1024,"resid_pdrop":0.1,"summary_activation":null,
          "summary_first_dropout":0.1,"summary_proj_to_labels":true,"summary_type":"cls_index",
          "summary_use_proj":true,"task_specific_params":{"text-generation":{"do_sample":true,
          "max_length":50}},"vocab_size":50257})",
      R"({"_name_or_path":"gpt2","_num_labels":1,"activation_function":"gelu_new",
          "architectures":["GPT2LMHeadModel"],"attn_pdrop":0.1,"bos_token_id":50256,
          "embd_pdrop":0.1,"eos_token_id":50256,"gradient_checkpointing":false,
          "id2label":{"0":"LABEL_0"},"label2id":{"LABEL_0":0},"initializer_range":0.02,
          "layer_norm_epsilon":1e-05,"model_type":"gpt2","n_ctx":1024,"n_embd":64,"n_head":4,
          "n_inner":null,"n_layer":2,"n_positions":1024,"pad_token_id":null,
          "reorder_and_upcast_attn":false,"resid_pdrop":0.1,
          "scale_attn_by_inverse_layer_idx":false,"scale_attn_weights":true,
          "summary_activation":null,"summary_first_dropout":0.1,"summary_proj_to_labels":true,
          "summary_type":"cls_index","summary_use_proj":true,"torch_dtype":"float32",
          "transformers_version":"4.30.0","use_cache":true,"vocab_size":50257,"hidden_size":64,
          "num_hidden_layers":2,"is_encoder_decoder":false,"pruned_heads":{},
          "quantization_config":null})",
      // TinyLlama's and Llama 2's.
      R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"bos_token_id":1,
          "eos_token_id":2,"hidden_act":"silu","hidden_size":64,"initializer_range":0.02,
          "intermediate_size":128,"max_position_embeddings":2048,"model_type":"llama",
          "num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":2,
          "pretraining_tp":1,"rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":10000.0,
          "tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.35.0",
          "use_cache":true,"vocab_size":32000,"pad_token_id":0,"max_sequence_length":2048})",
      // SmolLM's, and as transformers 5 saves it.
      R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
          "bos_token_id":1,"dtype":"float32","eos_token_id":[2],"head_dim":16,"hidden_act":"silu",
          "hidden_size":64,"initializer_range":0.02,"intermediate_size":128,
          "is_llama_config":true,"max_position_embeddings":8192,"mlp_bias":false,
          "model_type":"llama","num_attention_heads":4,"num_hidden_layers":2,
          "num_key_value_heads":1,"pad_token_id":2,"pretraining_tp":1,"rms_norm_eps":1e-05,
          "rope_interleaved":false,"rope_parameters":{"rope_theta":100000,"rope_type":"default"},
          "tie_word_embeddings":true,"transformers.js_config":{"kv_cache_dtype":{}},
          "transformers_version":"5.0.0","use_cache":false,"vocab_size":49152})",
      // Mistral's, of the versions without a window.
      R"({"architectures":["MistralForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,
          "eos_token_id":2,"hidden_act":"silu","hidden_size":64,"initializer_range":0.02,
          "intermediate_size":128,"max_position_embeddings":32768,"model_type":"mistral",
          "num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":1,
          "rms_norm_eps":1e-05,"rope_theta":1000000.0,"sliding_window":null,
          "tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.42.0",
          "use_cache":true,"vocab_size":32768})",
      // Mixtral's, and as transformers 5 saves it.
      R"({"architectures":["MixtralForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,
          "eos_token_id":2,"hidden_act":"silu","hidden_size":64,"initializer_range":0.02,
          "intermediate_size":128,"max_position_embeddings":32768,"model_type":"mixtral",
          "num_attention_heads":4,"num_experts_per_tok":2,"num_hidden_layers":2,
          "num_key_value_heads":1,"num_local_experts":8,"output_router_logits":false,
          "rms_norm_eps":1e-05,"rope_theta":1000000.0,"router_aux_loss_coef":0.02,
          "sliding_window":null,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
          "transformers_version":"4.36.0.dev0","use_cache":true,"vocab_size":32000})",
      R"({"architectures":["MixtralForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,
          "dtype":"float32","eos_token_id":2,"head_dim":16,"hidden_act":"silu","hidden_size":64,
          "initializer_range":0.02,"intermediate_size":128,"max_position_embeddings":32768,
          "model_type":"mixtral","num_attention_heads":4,"num_experts_per_tok":2,
          "num_hidden_layers":2,"num_key_value_heads":1,"num_local_experts":8,
          "output_router_logits":false,"rms_norm_eps":1e-05,
          "rope_parameters":{"rope_theta":1000000.0,"rope_type":"default"},
          "router_aux_loss_coef":0.02,"router_jitter_noise":0.0,"sliding_window":null,
          "tie_word_embeddings":false,"transformers_version":"5.0.0","use_cache":true,
          "vocab_size":32000})",
      // Llama 3.2's.
      R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
          "bos_token_id":128000,"eos_token_id":128001,"head_dim":16,"hidden_act":"silu",
          "hidden_size":64,"initializer_range":0.02,"intermediate_size":128,
          "max_position_embeddings":131072,"mlp_bias":false,"model_type":"llama",
          "num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":1,
          "pretraining_tp":1,"rms_norm_eps":1e-05,"rope_scaling":{"factor":32.0,
          "high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":8192,
          "rope_type":"llama3"},"rope_theta":500000.0,"tie_word_embeddings":true,
          "torch_dtype":"bfloat16","transformers_version":"4.45.0.dev0","use_cache":true,
          "vocab_size":128256})",
      // Qwen 2.5's and Qwen 3's.
      R"({"architectures":["Qwen2ForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,
          "eos_token_id":151643,"hidden_act":"silu","hidden_size":64,"initializer_range":0.02,
          "intermediate_size":128,"max_position_embeddings":32768,"max_window_layers":24,
          "model_type":"qwen2","num_attention_heads":4,"num_hidden_layers":2,
          "num_key_value_heads":2,"rms_norm_eps":1e-06,"rope_theta":1000000.0,
          "sliding_window":32768,"tie_word_embeddings":true,"torch_dtype":"bfloat16",
          "transformers_version":"4.40.1","use_cache":true,"use_mrope":false,
          "use_sliding_window":false,"vocab_size":151936})",
      R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
          "bos_token_id":151643,"eos_token_id":151645,"head_dim":128,"hidden_act":"silu",
          "hidden_size":64,"initializer_range":0.02,"intermediate_size":128,
          "max_position_embeddings":40960,"max_window_layers":28,"model_type":"qwen3",
          "num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":2,
          "rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":1000000,"sliding_window":null,
          "tie_word_embeddings":true,"torch_dtype":"bfloat16","transformers_version":"4.51.0",
          "use_cache":true,"use_sliding_window":false,"vocab_size":151936})",
      // Qwen1.5-MoE's, Qwen3-MoE's and OLMoE's.
      R"({"architectures":["Qwen2MoeForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,
          "decoder_sparse_step":1,"eos_token_id":151643,"hidden_act":"silu","hidden_size":64,
          "initializer_range":0.02,"intermediate_size":128,"max_position_embeddings":8192,
          "max_window_layers":21,"model_type":"qwen2_moe","moe_intermediate_size":32,
          "norm_topk_prob":false,"num_attention_heads":4,"num_experts":8,"num_experts_per_tok":4,
          "num_hidden_layers":2,"num_key_value_heads":4,"output_router_logits":false,
          "rms_norm_eps":1e-06,"rope_theta":1000000.0,"router_aux_loss_coef":0.001,
          "shared_expert_intermediate_size":96,"sliding_window":32768,
          "tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.39.0.dev0",
          "use_cache":true,"use_sliding_window":false,"vocab_size":151936})",
      R"({"architectures":["Qwen3MoeForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
          "bos_token_id":151643,"decoder_sparse_step":1,"eos_token_id":151645,"head_dim":128,
          "hidden_act":"silu","hidden_size":64,"initializer_range":0.02,"intermediate_size":128,
          "max_position_embeddings":40960,"max_window_layers":48,"mlp_only_layers":[],
          "model_type":"qwen3_moe","moe_intermediate_size":32,"norm_topk_prob":true,
          "num_attention_heads":4,"num_experts":8,"num_experts_per_tok":2,"num_hidden_layers":2,
          "num_key_value_heads":1,"output_router_logits":false,"rms_norm_eps":1e-06,
          "rope_scaling":null,"rope_theta":1000000.0,"router_aux_loss_coef":0.001,
          "sliding_window":null,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
          "transformers_version":"4.51.0","use_cache":true,"use_sliding_window":false,
          "vocab_size":151936})",
      R"({"architectures":["OlmoeForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
          "clip_qkv":null,"eos_token_id":50279,"hidden_act":"silu","hidden_size":64,
          "initializer_range":0.02,"intermediate_size":32,"max_position_embeddings":4096,
          "model_type":"olmoe","norm_topk_prob":false,"num_attention_heads":4,"num_experts":8,
          "num_experts_per_tok":2,"num_hidden_layers":2,"num_key_value_heads":4,
          "output_router_logits":false,"pad_token_id":1,"rope_scaling":null,"rope_theta":10000.0,
          "router_aux_loss_coef":0.01,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
          "transformers_version":"4.43.0.dev0","use_cache":true,"vocab_size":50304})"};
  for (const char* file : files) {
    SCOPED_TRACE(file);
    Spec spec;
    const absl::Status status = ParseTransformerConfig(file, "x", spec);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(spec.width(), 64u);
  }
}

TEST(TransformerConfigTest, WhatIsNotKnownIsRefusedByName) {
  const Json gpt2 = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kGpt2, Gpt2(), End(1)));
  const Json llama =
      Json::parse(WriteTransformerConfig(HuggingFaceFamily::kLlama, Llama(), End(1)));
  for (Json json : {gpt2, llama}) {
    json["residual_multiplier"] = 0.22;
    EXPECT_THAT(ErrorOf(json), AllOf(HasSubstr("c/config.json: residual_multiplier is 0.22"),
                                     HasSubstr("take it out of the file")));
    json["residual_multiplier"] = nullptr;
    EXPECT_EQ(ErrorOf(json), "");
    for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
             {"is_encoder_decoder", true},
             {"add_cross_attention", true},
             {"pruned_heads", {{"0", {1}}}},
             {"quantization_config", {{"bits", 4}}},
             {"auto_map", {{"AutoModelForCausalLM", "modeling.Mine"}}},
             {"architectures", {"MyForCausalLM"}},
             {"architectures", {"LlamaForSequenceClassification"}}}) {
      Json changed = json;
      changed[key] = value;
      EXPECT_THAT(ErrorOf(changed), HasSubstr(absl::StrCat(key, " is ", value.dump(), "; ")));
    }
  }
  // Keys of the one family say nothing in the other.
  Json json = llama;
  json["n_inner"] = 7;
  EXPECT_THAT(ErrorOf(json), HasSubstr("n_inner is 7"));
  json = gpt2;
  json["rope_theta"] = 10000;
  EXPECT_THAT(ErrorOf(json), HasSubstr("rope_theta is 10000"));
}

TEST(TransformerConfigTest, WhatGpt2MayHaveOtherwise) {
  const Json gpt2 = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kGpt2, Gpt2(), End(1)));
  Json json = gpt2;
  for (const char* name : {"gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"}) {
    json["activation_function"] = name;
    EXPECT_EQ(ErrorOf(json), "");
  }
  json["activation_function"] = "gelu";
  EXPECT_THAT(ErrorOf(json),
              AllOf(HasSubstr("activation_function is \"gelu\""), HasSubstr("write \"gelu_new\"")));
  json = gpt2;
  json["reorder_and_upcast_attn"] = true;
  EXPECT_EQ(ErrorOf(json), "") << "in f32 it is the same";
  json["scale_attn_weights"] = false;
  EXPECT_THAT(ErrorOf(json), HasSubstr("scale_attn_weights is false"));
  json = gpt2;
  json["hidden_size"] = 9;
  EXPECT_THAT(ErrorOf(json), HasSubstr("hidden_size is 9; only 768 is understood"));
}

TEST(TransformerConfigTest, WhatLlamaMayHaveOtherwise) {
  const Json llama =
      Json::parse(WriteTransformerConfig(HuggingFaceFamily::kLlama, Llama(), End(1)));
  const auto changed = [&llama](const char* key, const Json& value) {
    Json json = llama;
    json[key] = value;
    return ErrorOf(json);
  };
  EXPECT_EQ(changed("hidden_act", "swish"), "");
  EXPECT_EQ(changed("head_dim", 64), "");
  EXPECT_EQ(changed("head_dim", 128), "");
  EXPECT_EQ(changed("pretraining_tp", 2), "");
  EXPECT_EQ(changed("partial_rotary_factor", 1.0), "");
  EXPECT_THAT(changed("partial_rotary_factor", 0.5), HasSubstr("partial_rotary_factor is 0.5"));
  EXPECT_THAT(changed("rope_interleaved", true), HasSubstr("rope_interleaved is true"));
  EXPECT_THAT(changed("mlp_bias", true), HasSubstr("mlp_bias is true"));
  EXPECT_EQ(changed("layer_types", Json::array_t(12, "full_attention")), "");
  EXPECT_THAT(changed("layer_types", Json::array_t(12, "sliding_attention")),
              AllOf(HasSubstr("layer_types is "), HasSubstr("there is no sliding_window")));
}

TEST(TransformerConfigTest, AWindowIsThatOfTheLayersThatHaveIt) {
  Json json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kQwen2, Qwen2(), End(1)));
  const auto read = [&json] {
    Spec spec;
    const absl::Status status = ParseTransformerConfig(json.dump(), "x", spec);
    EXPECT_TRUE(status.ok()) << status;
    return spec;
  };
  json["num_hidden_layers"] = 3;
  json["sliding_window"] = 512;
  EXPECT_EQ(read().sliding_window(), 0u) << "not used";
  json["use_sliding_window"] = true;
  EXPECT_EQ(read().sliding_window(), 0u) << "the first 28 layers have none";
  json["max_window_layers"] = 2;
  EXPECT_EQ(read().sliding_window(), 512u);
  EXPECT_THAT(read().whole_layers(), ElementsAre(0, 1));
  json["max_window_layers"] = 0;
  EXPECT_EQ(read().sliding_window(), 512u);
  EXPECT_THAT(read().whole_layers(), IsEmpty());
  json["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(read().whole_layers(), ElementsAre(1));
  // What is written says the same to readers of either key.
  const Json written =
      Json::parse(WriteTransformerConfig(HuggingFaceFamily::kQwen2, read(), End(1)));
  EXPECT_EQ(written["layer_types"], json["layer_types"]);
  EXPECT_EQ(written["max_window_layers"], 1);
  EXPECT_EQ(written["sliding_window"], 512);
  EXPECT_EQ(written["use_sliding_window"], true);
  json["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_THAT(ErrorOf(json), HasSubstr("expected a list of 3 layers"));
  json["layer_types"] = {"full_attention", "chunked_attention", "full_attention"};
  EXPECT_THAT(ErrorOf(json), HasSubstr("\"sliding_attention\" are understood"));
  json.erase("layer_types");
  json["sliding_window"] = 1024;
  EXPECT_EQ(read().sliding_window(), 0u) << "as long as the context";
  // The windows of models with experts are another matter.
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kQwen3Moe, Qwen3Moe(), End(1)));
  json["use_sliding_window"] = true;
  json["sliding_window"] = 8;
  json["max_window_layers"] = 0;
  EXPECT_THAT(ErrorOf(json),
              AllOf(HasSubstr("sliding_window is 8"), HasSubstr("max_position_embeddings")));
  // Mistral has one unless it says otherwise, and fewer heads of keys and values.
  json = Json::parse(WriteTransformerConfig(HuggingFaceFamily::kMistral, Mistral(), End(1)));
  EXPECT_EQ(json["model_type"], "mistral");
  EXPECT_EQ(json["sliding_window"], 300);
  json["max_position_embeddings"] = 32768;
  json.erase("sliding_window");
  Spec spec;
  ASSERT_TRUE(ParseTransformerConfig(json.dump(), "x", spec).ok());
  EXPECT_EQ(spec.sliding_window(), 4096u);
  json["sliding_window"] = "wide";
  EXPECT_THAT(ErrorOf(json), HasSubstr("sliding_window is \"wide\""));
  json["sliding_window"] = nullptr;
  ASSERT_TRUE(ParseTransformerConfig(json.dump(), "x", spec).ok());
  EXPECT_EQ(spec.sliding_window(), 0u);
  json.erase("sliding_window");
  json["max_position_embeddings"] = 4096;
  json["num_attention_heads"] = 16;
  json.erase("num_key_value_heads");
  ASSERT_TRUE(ParseTransformerConfig(json.dump(), "x", spec).ok());
  EXPECT_EQ(spec.sliding_window(), 0u) << "as long as the context";
  EXPECT_EQ(spec.kv_heads(), 8u);
}

TEST(TransformerConfigTest, WhatMixtralLeavesOut) {
  Spec spec;
  const absl::Status status = ParseTransformerConfig(
      R"({"model_type":"mixtral","hidden_size":64,"intermediate_size":128,"num_hidden_layers":4,
          "num_attention_heads":16,"vocab_size":100,"max_position_embeddings":32768,
          "num_local_experts":4,"num_experts_per_tok":2})",
      "x", spec);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(spec.kv_heads(), 8u);
  EXPECT_EQ(spec.rotary_base(), 1e6f);
  EXPECT_EQ(spec.norm_epsilon(), 1e-5f);
  EXPECT_TRUE(spec.moe().normalize());
  EXPECT_EQ(spec.moe().auxiliary_loss(), 0.0005f);
  EXPECT_EQ(ConfigNote(spec),
            "moe.auxiliary_loss is 0.0005: the file's router_aux_loss_coef 0.001, times top_k 2, "
            "over 4 layers with experts; Muster divides choices by top_k, and adds the losses of "
            "layers");
  EXPECT_EQ(ConfigNote(Llama()), "");
}

TEST(TransformerConfigTest, OtherModelsAreRefusedWithWhatWouldWork) {
  for (const char* type : {"qwen2_vl", "gemma", "gpt_neox", "opt", "bert"}) {
    EXPECT_THAT(ErrorOf({{"model_type", type}}),
                AllOf(HasSubstr(absl::StrCat("model_type is \"", type, "\"; ")),
                      HasSubstr("what can be imported: GPT-2's shape")));
  }
  EXPECT_THAT(ErrorOf({{"model_type", "gemma"}}), HasSubstr("its embedding is scaled"));
  EXPECT_THAT(ErrorOf(Json::object()), HasSubstr("model_type is null"));
}

}  // namespace
}  // namespace muster
