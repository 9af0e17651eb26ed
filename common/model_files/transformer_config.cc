#include "common/model_files/transformer_config.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/base/model_limits.h"
#include "common/base/status_macros.h"
#include "common/files/parse_json.h"
#include "common/model_files/config_fields.h"
#include "common/model_files/expert_config.h"
#include "common/text/dump_json.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using Spec = v1::TransformerSpec;

// The shortest decimal number that is this one in f32: 1e-05 rather than 9.999999747378752e-06.
double Shortest(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  double number = 0;
  std::from_chars(text, end.ptr, number);
  return number;
}

using Family = HuggingFaceFamily;

// A model_type, and what its configuration has where keys are left out.
struct ModelType {
  const char* name;
  Family family;
  // 0: as many as heads.
  uint32_t kv_heads = 0;
  float rotary_base = 10000;
  float norm_epsilon = 1e-6f;
  // 0: none.
  uint32_t window = 0;
  bool window_used = true;
};

constexpr ModelType kTypes[] = {
    {"gpt2", Family::kGpt2},
    {"llama", Family::kLlama},
    {"mistral", Family::kLlama, 8, 10000, 1e-6f, 4096},
    {"mixtral", Family::kMixtral, 8, 1e6f, 1e-5f},
    {"qwen2_moe", Family::kQwen2Moe, 16, 10000, 1e-6f, 4096, false},
    {"qwen3_moe", Family::kQwen3Moe, 4, 10000, 1e-6f, 4096, false},
    {"olmoe", Family::kOlmoe, 0, 10000, 1e-5f},
    {"deepseek_v3", Family::kDeepseekV3},
};

// What can be imported, for errors.
constexpr char kInstead[] =
    "what can be imported: GPT-2's shape, and Llama's without biases and scaled angles (Llama 2 "
    "and 3.0, TinyLlama, SmolLM, Mistral without a sliding window), also with experts (Mixtral, "
    "Qwen2-MoE without biases)";

// Why models of other types, which people try first, are none of these.
constexpr std::pair<const char*, const char*> kOtherTypes[] = {
    {"bloom", "its positions are slopes of attention (ALiBi)"},
    {"falcon", "its attention and feed-forward part lie side by side"},
    {"gemma", "its norms add 1 to their weights, and its embedding is scaled"},
    {"gemma2", "its norms add 1 to their weights, and its scores are capped"},
    {"gemma3_text", "its norms add 1 to their weights, and its layers attend within a window"},
    {"gpt_neo", "every other layer attends within a window"},
    {"gpt_neox", "its attention and feed-forward part lie side by side"},
    {"gptj", "its attention and feed-forward part lie side by side"},
    {"mpt", "its positions are slopes of attention (ALiBi)"},
    {"opt", "its activation is ReLU"},
    {"phi", "its attention and feed-forward part lie side by side, with biases"},
    {"qwen2", "its queries, keys and values have biases"},
    {"qwen3", "its queries and keys are normalized"},
};

// Keys of any model that change nothing that it computes of tokens: where it comes from, its
// numeric type, whose tensors say their own, special tokens' ids, how text is drawn from it, other
// tasks' heads, whose tensors would be refused, and how another program runs it.
constexpr const char* kHarmless[] = {
    "_attn_implementation", "_attn_implementation_autoset", "_commit_hash",
    "_experts_implementation", "_flash_attn_2_enabled", "_from_model_config", "_name_or_path",
    "_num_labels", "attn_implementation", "dtype", "finetuning_task", "gradient_checkpointing",
    "id2label", "initializer_range", "label2id", "model_max_length", "name_or_path", "num_labels",
    "output_attentions", "output_hidden_states", "output_past", "prefix", "problem_type",
    "return_dict", "task_specific_params", "tf_legacy_loss", "tie_encoder_decoder",
    "tokenizer_class", "torch_dtype", "torchscript", "transformers.js_config",
    "transformers_version", "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache",
    "xla_device",
    // The feed-forward part in pieces gives the same.
    "chunk_size_feed_forward",
    // Without cross attention a decoder is what it is.
    "is_decoder",
    // Tokens.
    "bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id", "sep_token_id",
    // Drawing text.
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff",
    "exponential_decay_length_penalty", "force_words_ids", "forced_bos_token_id",
    "forced_decoder_ids", "forced_eos_token_id", "guidance_scale", "length_penalty", "max_length",
    "max_new_tokens", "max_time", "min_length", "min_new_tokens", "min_p", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_logits", "output_scores",
    "penalty_alpha", "remove_invalid_values", "renormalize_logits", "repetition_penalty",
    "return_dict_in_generate", "sequence_bias", "stop_strings", "suppress_tokens", "temperature",
    "top_k", "top_p", "typical_p"};

// Reads what both families have: keys that are harmless, and those that must be off.
void ReadCommon(ConfigFields& fields) {
  fields.Ignore(kHarmless);
  fields.Expect("is_encoder_decoder", false, kInstead);
  fields.Expect("add_cross_attention", false, kInstead);
  fields.Expect("cross_attention_hidden_size", nullptr, kInstead);
  fields.Expect("pruned_heads", Json::object());
  fields.Expect("quantization_config", nullptr, "save the model's weights in 16 or 32 bits first");
  fields.Expect("auto_map", nullptr,
                "such a model computes by code of its own; one whose code is the family's has no "
                "need of this key");
}

// Refuses models that are there for another task, or whose code is their own.
void ReadArchitectures(ConfigFields& fields, absl::Span<const char* const> known) {
  const Json& names = fields.Get("architectures");
  if (names.is_null() || names == Json::array()) return;
  for (const char* name : known) {
    if (names.is_array() && std::find(names.begin(), names.end(), Json(name)) != names.end())
      return;
  }
  fields.Refuse("architectures", absl::StrCat("only models that predict the next token are "
                                              "understood, as ",
                                              absl::StrJoin(known, " and ")));
}

void ReadGpt2(ConfigFields& fields, Spec& spec) {
  spec.set_layers(fields.Count("n_layer", kMaxTransformerLayers));
  spec.set_width(fields.Count("n_embd", kMaxWidth));
  spec.set_heads(fields.Count("n_head", kMaxWidth));
  spec.set_feed_forward(fields.Count("n_inner", kMaxFeedForward, 4 * spec.width()));
  spec.set_vocabulary(fields.Count("vocab_size", kMaxVocabulary));
  spec.set_context(fields.Count("n_positions", kMaxContext));
  spec.set_norm(Spec::LAYER_NORM);
  spec.set_positions(Spec::LEARNED);
  spec.set_activation(Spec::GELU);
  spec.set_norm_epsilon(fields.Positive("layer_norm_epsilon", 1e-5f));
  // After attention and feed-forward; models as published have the same after the embedding.
  spec.set_dropout(fields.Probability("resid_pdrop", 0));
  spec.set_attention_dropout(fields.Probability("attn_pdrop", 0));
  spec.set_separate_head(!fields.Flag("tie_word_embeddings", true));
  // All of them are the tanh form.
  fields.ExpectOneOf("activation_function",
                     {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"},
                     "where it is \"gelu\", the exact form, and a difference of some 5e-4 between "
                     "the forms does not matter, write \"gelu_new\"");
  fields.Expect("scale_attn_weights", true, kInstead);
  fields.Expect("scale_attn_by_inverse_layer_idx", false, kInstead);
  // Other names of the same.
  fields.Expect("num_hidden_layers", spec.layers());
  fields.Expect("hidden_size", spec.width());
  fields.Expect("num_attention_heads", spec.heads());
  fields.Expect("max_position_embeddings", spec.context());
  // Dropout after the embedding matters to training alone, where a job says its own. Attention's
  // scores are f32 here in any order of scaling. The context is n_positions, and the summary is
  // another task's.
  fields.Ignore({"embd_pdrop", "reorder_and_upcast_attn", "n_ctx", "predict_special_tokens",
                 "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj"});
}

// Reads the base of the rotary angles, which newer files keep in an object with how to scale them.
void ReadRotary(ConfigFields& fields, float left_out, Spec& spec) {
  constexpr char kScaled[] =
      "angles are not scaled here; models without that are understood, as Llama 2 and 3.0, "
      "TinyLlama and SmolLM";
  spec.set_rotary_base(fields.Positive("rope_theta", left_out));
  const Json& scaling = fields.Get("rope_scaling");
  if (scaling != Json({{"type", "default"}}) && scaling != Json({{"rope_type", "default"}})) {
    fields.Expect("rope_scaling", nullptr, kScaled);
  }
  fields.Expect("partial_rotary_factor", 1, kInstead);
  // How pairs of elements lie; both families' files have their halves one after the other.
  fields.Expect("rope_interleaved", false, kInstead);
  const Json& rotary = fields.Get("rope_parameters");
  if (rotary.is_null()) return;
  if (!rotary.is_object()) return fields.Refuse("rope_parameters", "expected an object");
  for (const auto& item : rotary.items()) {
    const bool harmless = item.value().is_null() ||
                          (item.key() == "rope_type" && item.value() == Json("default")) ||
                          (item.key() == "partial_rotary_factor" && item.value() == Json(1));
    if (item.key() == "rope_theta" && item.value().is_number() && item.value().get<double>() > 0) {
      spec.set_rotary_base(item.value().get<float>());
    } else if (!harmless) {
      fields.Refuse("rope_parameters",
                    absl::StrCat("of these, ", item.key(), " is not understood: ", kScaled));
    }
  }
}

// Refuses attention within a window, unless the context is no longer than that.
void ReadWindow(ConfigFields& fields, uint32_t context, const ModelType& type) {
  const uint32_t left_out = type.window;
  const bool used = fields.Flag("use_sliding_window", type.window_used);
  fields.Ignore({"max_window_layers"});
  const Json& types = fields.Get("layer_types");
  for (const Json& each : types.is_array() ? types : Json::array()) {
    if (each != Json("full_attention")) fields.Refuse("layer_types", kInstead);
  }
  const bool is_there = fields.Has("sliding_window");
  const Json& said = fields.Get("sliding_window");
  const Json window = is_there || left_out == 0 ? said : Json(left_out);
  if (window.is_null() || !used || (window.is_number_integer() && window >= Json(context))) return;
  fields.Refuse("sliding_window",
                absl::StrCat(is_there ? "" : absl::StrCat("left out it means ", left_out, "; "),
                             "attention within a window is not understood; with a "
                             "max_position_embeddings of no more than the window the two are the "
                             "same, and so they are where it is null"));
}

// Refuses attention that is not Llama's.
void ReadAttention(Family family, ConfigFields& fields) {
  if (family == Family::kQwen2Moe && fields.Flag("qkv_bias", true)) {
    fields.Refuse("qkv_bias", absl::StrCat(fields.Has("qkv_bias") ? "" : "left out it means true; ",
                                           "biases of queries, keys and values are not understood; "
                                           "models whose file says false are"));
  } else if (family == Family::kQwen3Moe) {
    fields.Refuse("model_type",
                  "it normalizes the queries and keys of each head, which is not "
                  "understood");
  } else if (family == Family::kOlmoe) {
    fields.Refuse("model_type",
                  "it normalizes queries and keys over the model's width, which is "
                  "not understood");
  } else if (family == Family::kDeepseekV3) {
    fields.Refuse("model_type",
                  "its queries, keys and values are made of compressed ones "
                  "(multi-head latent attention), which is not understood");
  }
  fields.Expect("attention_bias", false, kInstead);
  fields.Expect("clip_qkv", nullptr, kInstead);
}

// Refuses models for another task, or of code of their own.
void ReadArchitectures(Family family, ConfigFields& fields) {
  switch (family) {
    case Family::kGpt2:
      return ReadArchitectures(fields, {"GPT2LMHeadModel", "GPT2Model"});
    case Family::kLlama:
      return ReadArchitectures(
          fields, {"LlamaForCausalLM", "LlamaModel", "MistralForCausalLM", "MistralModel"});
    case Family::kMixtral:
      return ReadArchitectures(fields, {"MixtralForCausalLM", "MixtralModel"});
    case Family::kQwen2Moe:
      return ReadArchitectures(fields, {"Qwen2MoeForCausalLM", "Qwen2MoeModel"});
    case Family::kQwen3Moe:
      return ReadArchitectures(fields, {"Qwen3MoeForCausalLM", "Qwen3MoeModel"});
    case Family::kOlmoe:
      return ReadArchitectures(fields, {"OlmoeForCausalLM", "OlmoeModel"});
    case Family::kDeepseekV3:
      return ReadArchitectures(fields, {"DeepseekV3ForCausalLM", "DeepseekV3Model"});
  }
}

void ReadLlama(const ModelType& type, ConfigFields& fields, Spec& spec) {
  spec.set_layers(fields.Count("num_hidden_layers", kMaxTransformerLayers));
  spec.set_width(fields.Count("hidden_size", kMaxWidth));
  spec.set_heads(fields.Count("num_attention_heads", kMaxWidth));
  const bool left_out = !fields.Has("num_key_value_heads");
  spec.set_kv_heads(fields.Count("num_key_value_heads", kMaxWidth,
                                 left_out && type.kv_heads > 0 ? type.kv_heads : spec.heads()));
  spec.set_feed_forward(fields.Count("intermediate_size", kMaxFeedForward));
  spec.set_vocabulary(fields.Count("vocab_size", kMaxVocabulary));
  spec.set_context(fields.Count("max_position_embeddings", kMaxContext));
  spec.set_norm(Spec::RMS_NORM);
  spec.set_positions(Spec::ROTARY);
  spec.set_activation(Spec::SWIGLU);
  spec.set_no_biases(true);
  spec.set_attention_dropout(fields.Probability("attention_dropout", 0));
  spec.set_norm_epsilon(fields.Positive("rms_norm_eps", type.norm_epsilon));
  spec.set_separate_head(!fields.Flag("tie_word_embeddings", false));
  ReadRotary(fields, type.rotary_base, spec);
  ReadWindow(fields, spec.context(), type);
  // One function by two names.
  fields.ExpectOneOf("hidden_act", {"silu", "swish"}, kInstead);
  fields.Expect("mlp_bias", false, kInstead);
  if (fields.status().ok() && spec.width() % spec.heads() == 0) {
    fields.Expect("head_dim", spec.width() / spec.heads(), "heads share out the width here");
  }
  // Products in pretraining_tp pieces give the same; the others repeat what is known.
  fields.Ignore({"is_llama_config", "max_sequence_length", "pretraining_tp"});
  if (type.family != Family::kLlama) ReadExperts(type.family, fields, spec);
}

void RefuseType(const Json& type, ConfigFields& fields) {
  for (const auto& [name, reason] : kOtherTypes) {
    if (type == Json(name))
      return fields.Refuse("model_type", absl::StrCat(reason, "; ", kInstead));
  }
  fields.Refuse("model_type", absl::StrCat("only \"gpt2\", \"llama\", \"mistral\", \"mixtral\" and "
                                           "\"qwen2_moe\" are understood; ",
                                           kInstead));
}

// Adds what tells Llama and the families like it apart.
void WriteFamily(Family family, const Spec& spec, Json& json) {
  if (family == Family::kLlama) {
    json["architectures"] = {"LlamaForCausalLM"};
    json["model_type"] = "llama";
    json["attention_bias"] = false;
    json["mlp_bias"] = false;
    return;
  }
  if (family == Family::kMixtral) {
    json["architectures"] = {"MixtralForCausalLM"};
    json["model_type"] = "mixtral";
    json["sliding_window"] = nullptr;
  } else {
    json["architectures"] = {"Qwen2MoeForCausalLM"};
    json["model_type"] = "qwen2_moe";
    json["qkv_bias"] = false;
    json["use_sliding_window"] = false;
  }
  WriteExperts(family, spec, json);
}

}  // namespace

std::string WriteTransformerConfig(HuggingFaceFamily family, const Spec& spec,
                                   std::optional<int32_t> end_of_text) {
  Json json;
  if (family == HuggingFaceFamily::kGpt2) {
    json = {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"n_layer", spec.layers()},
            {"n_embd", spec.width()},
            {"n_head", spec.heads()},
            {"n_inner", spec.feed_forward()},
            {"n_positions", spec.context()},
            {"n_ctx", spec.context()},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", Shortest(spec.norm_epsilon())},
            {"embd_pdrop", Shortest(spec.dropout())},
            {"resid_pdrop", Shortest(spec.dropout())},
            {"attn_pdrop", Shortest(spec.attention_dropout())},
            {"initializer_range", 0.02}};
  } else {
    json = {{"num_hidden_layers", spec.layers()},
            {"hidden_size", spec.width()},
            {"num_attention_heads", spec.heads()},
            {"num_key_value_heads", spec.kv_heads()},
            {"intermediate_size", spec.feed_forward()},
            {"max_position_embeddings", spec.context()},
            {"hidden_act", "silu"},
            {"rms_norm_eps", Shortest(spec.norm_epsilon())},
            {"rope_theta", Shortest(spec.rotary_base())},
            {"rope_scaling", nullptr},
            {"attention_dropout", Shortest(spec.attention_dropout())},
            {"initializer_range", 0.02}};
    WriteFamily(family, spec, json);
  }
  json["vocab_size"] = spec.vocabulary();
  json["tie_word_embeddings"] = !spec.separate_head();
  json["torch_dtype"] = "float32";
  json["use_cache"] = true;
  // Without such a token the families' own numbers, meant for their own vocabularies, would count.
  const Json end = end_of_text.has_value() ? Json(*end_of_text) : Json(nullptr);
  json["bos_token_id"] = end;
  json["eos_token_id"] = end;
  return DumpJson(json, 2) + "\n";
}

absl::Status ParseTransformerConfig(absl::string_view text, const std::string& origin, Spec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, ParseJson(text, origin, "a config.json"));
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(origin, " is no JSON object"));
  }
  spec.Clear();
  ConfigFields fields(json, origin);
  const Json& name = fields.Get("model_type");
  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&name](const ModelType& each) { return name == Json(each.name); });
  if (type == std::end(kTypes)) {
    RefuseType(name, fields);
    return fields.status();
  }
  // First, so that nobody mends the rest of a file in vain.
  if (type->family != Family::kGpt2) ReadAttention(type->family, fields);
  ReadCommon(fields);
  ReadArchitectures(type->family, fields);
  if (type->family == Family::kGpt2) {
    ReadGpt2(fields, spec);
  } else {
    ReadLlama(*type, fields, spec);
  }
  fields.RefuseOthers();
  MUSTER_RETURN_IF_ERROR(fields.status());
  FillTransformerDefaults(spec.vocabulary(), spec);
  if (spec.width() % spec.heads() != 0 || spec.heads() % spec.kv_heads() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, ": a width of ", spec.width(), " with ", spec.heads(), " heads and ",
        spec.kv_heads(),
        " key-value heads; the width must be a multiple of the heads, and they of the latter"));
  }
  return absl::OkStatus();
}

std::string ConfigNote(const Spec& spec) { return ExpertsNote(spec); }

}  // namespace muster
