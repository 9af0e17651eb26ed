#include "common/model_files/transformer_config.h"

#include <algorithm>
#include <iterator>
#include <limits>
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
#include "common/model_files/rotary_config.h"
#include "common/model_files/shortest.h"
#include "common/text/dump_json.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using Spec = v1::TransformerSpec;

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
  // 0: heads share out the width.
  uint32_t head_width = 0;
};

constexpr ModelType kTypes[] = {
    {"gpt2", Family::kGpt2},
    {"llama", Family::kLlama},
    {"mistral", Family::kMistral, 8, 10000, 1e-6f, 4096},
    {"mixtral", Family::kMixtral, 8, 1e6f, 1e-5f},
    {"qwen2", Family::kQwen2, 32, 10000, 1e-6f, 4096, false},
    {"qwen3", Family::kQwen3, 32, 10000, 1e-6f, 4096, false, 128},
    {"qwen2_moe", Family::kQwen2Moe, 16, 10000, 1e-6f, 4096, false},
    {"qwen3_moe", Family::kQwen3Moe, 4, 10000, 1e-6f, 4096, false},
    {"olmoe", Family::kOlmoe, 0, 10000, 1e-5f},
    {"deepseek_v3", Family::kDeepseekV3},
};

// Layers without a window, from the first on, of a Qwen model that has one and does not say.
constexpr uint32_t kUsualMaxWindowLayers = 28;

// What can be imported, for errors.
constexpr char kInstead[] =
    "what can be imported: GPT-2's shape, and Llama's (Llama 2 and 3, TinyLlama, SmolLM, Qwen 2 "
    "and 3, Mistral), also with experts (Mixtral, Qwen2-MoE, Qwen3-MoE, "
    "OLMoE)";

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
    {"qwen2_vl", "it also reads pictures, whose positions are of three dimensions"},
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

// Returns the layers without a window, of those of a model that has one: layer_types says of each
// layer what it is, or the first max_window_layers have none.
std::vector<uint32_t> ReadWholeLayers(ConfigFields& fields, const ModelType& type,
                                      const Spec& spec) {
  std::vector<uint32_t> whole;
  const Json& types = fields.Get("layer_types");
  if (!types.is_null()) {
    if (!types.is_array() || types.size() != spec.layers()) {
      fields.Refuse("layer_types", absl::StrCat("expected a list of ", spec.layers(), " layers"));
      return whole;
    }
    for (uint32_t l = 0; l < spec.layers(); ++l) {
      if (types[l] == Json("full_attention")) {
        whole.push_back(l);
      } else if (types[l] != Json("sliding_attention")) {
        fields.Refuse("layer_types",
                      "only \"full_attention\" and \"sliding_attention\" are understood");
      }
    }
    return whole;
  }
  if (type.window_used) return whole;
  const uint32_t first = fields.Get("max_window_layers").is_null()
                             ? kUsualMaxWindowLayers
                             : fields.CountOrNone("max_window_layers", kMaxTransformerLayers);
  for (uint32_t l = 0; l < std::min(first, spec.layers()); ++l) whole.push_back(l);
  return whole;
}

// Reads the window of attention, and which layers have it.
void ReadWindow(ConfigFields& fields, const ModelType& type, Spec& spec) {
  const uint32_t left_out = type.window;
  const bool used = fields.Flag("use_sliding_window", type.window_used);
  // Means nothing beside layer_types.
  fields.Ignore({"max_window_layers"});
  const std::vector<uint32_t> whole = ReadWholeLayers(fields, type, spec);
  const bool none =
      fields.Has("sliding_window") ? fields.Get("sliding_window").is_null() : left_out == 0;
  const uint32_t window =
      none ? 0 : fields.Count("sliding_window", std::numeric_limits<uint32_t>::max(), left_out);
  if (window == 0 || !used) {
    if (fields.Has("layer_types") && whole.size() < spec.layers()) {
      fields.Refuse("layer_types", "but there is no sliding_window that is used");
    }
    return;
  }
  // In one as long as the context a token attends to all before it.
  if (window >= spec.context()) return;
  if (whole.size() == spec.layers()) return;
  if (type.family == Family::kQwen2Moe || type.family == Family::kQwen3Moe) {
    return fields.Refuse("sliding_window",
                         "models of this family attend to all tokens here; with a "
                         "max_position_embeddings of no more than the window the two are the "
                         "same, and so they are where it is null");
  }
  spec.set_sliding_window(window);
  spec.mutable_whole_layers()->Assign(whole.begin(), whole.end());
}

// Reads what the families do otherwise in attention.
void ReadAttention(Family family, ConfigFields& fields, Spec& spec) {
  if (family == Family::kDeepseekV3) {
    fields.Refuse("model_type",
                  "its queries, keys and values are made of compressed ones "
                  "(multi-head latent attention), which is not understood");
  }
  spec.set_attention_biases(family == Family::kQwen2 ||
                            (family == Family::kQwen2Moe && fields.Flag("qkv_bias", true)));
  if (family == Family::kQwen3 || family == Family::kQwen3Moe) {
    spec.set_query_key_norm(Spec::PER_HEAD);
  } else if (family == Family::kOlmoe) {
    spec.set_query_key_norm(Spec::WHOLE_WIDTH);
  }
  fields.Expect("attention_bias", false, kInstead);
  fields.Expect("clip_qkv", nullptr, kInstead);
  // Positions of pictures and films.
  fields.Expect("use_mrope", false, kInstead);
}

// Refuses models for another task, or of code of their own.
void ReadArchitectures(Family family, ConfigFields& fields) {
  switch (family) {
    case Family::kGpt2:
      return ReadArchitectures(fields, {"GPT2LMHeadModel", "GPT2Model"});
    case Family::kLlama:
    case Family::kMistral:
      return ReadArchitectures(
          fields, {"LlamaForCausalLM", "LlamaModel", "MistralForCausalLM", "MistralModel"});
    case Family::kQwen2:
      return ReadArchitectures(fields, {"Qwen2ForCausalLM", "Qwen2Model"});
    case Family::kQwen3:
      return ReadArchitectures(fields, {"Qwen3ForCausalLM", "Qwen3Model"});
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
  ReadWindow(fields, type, spec);
  // One function by two names.
  fields.ExpectOneOf("hidden_act", {"silu", "swish"}, kInstead);
  fields.Expect("mlp_bias", false, kInstead);
  if (type.family == Family::kOlmoe) {
    // It has no such key: heads share out the width.
    fields.Expect("head_dim", spec.width() / spec.heads());
  } else if (type.head_width > 0 || !fields.Get("head_dim").is_null()) {
    spec.set_head_width(fields.Count("head_dim", kMaxHeadDim, type.head_width));
  }
  // Products in pretraining_tp pieces give the same; the others repeat what is known.
  fields.Ignore({"is_llama_config", "max_sequence_length", "pretraining_tp"});
  if (HasExperts(type.family)) ReadExperts(type.family, fields, spec);
}

void RefuseType(const Json& type, ConfigFields& fields) {
  for (const auto& [name, reason] : kOtherTypes) {
    if (type == Json(name))
      return fields.Refuse("model_type", absl::StrCat(reason, "; ", kInstead));
  }
  fields.Refuse("model_type",
                absl::StrCat("only \"gpt2\", \"llama\", \"mistral\", \"qwen2\", \"qwen3\", "
                             "\"mixtral\", \"qwen2_moe\", \"qwen3_moe\" and "
                             "\"olmoe\" are understood; ",
                             kInstead));
}

// Adds the window of a Qwen model, and the layers that have it: older readers know only how many
// have none, newer ones a list.
void WriteWindow(const Spec& spec, Json& json) {
  json["use_sliding_window"] = spec.sliding_window() > 0;
  if (spec.sliding_window() == 0) return;
  json["sliding_window"] = spec.sliding_window();
  json["max_window_layers"] = spec.whole_layers_size();
  Json types = Json::array();
  const auto& whole = spec.whole_layers();
  for (uint32_t l = 0; l < spec.layers(); ++l) {
    const bool is_whole = std::find(whole.begin(), whole.end(), l) != whole.end();
    types.push_back(is_whole ? "full_attention" : "sliding_attention");
  }
  json["layer_types"] = types;
}

// Adds what tells Llama and the families like it apart.
void WriteFamily(Family family, const Spec& spec, Json& json) {
  const auto name = [&json](const char* architecture, const char* model_type) {
    json["architectures"] = {architecture};
    json["model_type"] = model_type;
  };
  switch (family) {
    case Family::kLlama:
      name("LlamaForCausalLM", "llama");
      json["attention_bias"] = false;
      json["mlp_bias"] = false;
      break;
    case Family::kMistral:
      name("MistralForCausalLM", "mistral");
      json["sliding_window"] = spec.sliding_window();
      break;
    case Family::kQwen2:
      name("Qwen2ForCausalLM", "qwen2");
      WriteWindow(spec, json);
      break;
    case Family::kQwen3:
      name("Qwen3ForCausalLM", "qwen3");
      json["attention_bias"] = false;
      WriteWindow(spec, json);
      break;
    case Family::kMixtral:
      name("MixtralForCausalLM", "mixtral");
      json["sliding_window"] =
          spec.sliding_window() > 0 ? Json(spec.sliding_window()) : Json(nullptr);
      break;
    case Family::kQwen2Moe:
      name("Qwen2MoeForCausalLM", "qwen2_moe");
      json["qkv_bias"] = spec.attention_biases();
      json["use_sliding_window"] = false;
      break;
    case Family::kQwen3Moe:
      name("Qwen3MoeForCausalLM", "qwen3_moe");
      json["attention_bias"] = false;
      json["use_sliding_window"] = false;
      break;
    case Family::kOlmoe:
      name("OlmoeForCausalLM", "olmoe");
      json["attention_bias"] = false;
      json["clip_qkv"] = nullptr;
      break;
    // Written elsewhere, and not at all.
    case Family::kGpt2:
    case Family::kDeepseekV3:
      break;
  }
  if (HasExperts(family)) WriteExperts(family, spec, json);
}

// Adds the tokens. Without them the families' own numbers, meant for their own vocabularies, would
// count.
void AddTokens(const FrameTokens& tokens, Json& json) {
  json["bos_token_id"] = tokens.begin.has_value() ? Json(*tokens.begin) : Json(nullptr);
  json["eos_token_id"] = tokens.ends.empty()       ? Json(nullptr)
                         : tokens.ends.size() == 1 ? Json(tokens.ends[0])
                                                   : Json(tokens.ends);
}

}  // namespace

std::string WriteTransformerConfig(HuggingFaceFamily family, const Spec& spec,
                                   const FrameTokens& tokens, DType type) {
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
            {"attention_dropout", Shortest(spec.attention_dropout())},
            {"initializer_range", 0.02}};
    // Left out it would mean another width in some families.
    if (family != HuggingFaceFamily::kOlmoe) json["head_dim"] = spec.head_width();
    WriteRotary(spec, json);
    WriteFamily(family, spec, json);
  }
  json["vocab_size"] = spec.vocabulary();
  json["tie_word_embeddings"] = !spec.separate_head();
  json["torch_dtype"] = type == DType::kBf16  ? "bfloat16"
                        : type == DType::kF16 ? "float16"
                                              : "float32";
  json["use_cache"] = true;
  AddTokens(tokens, json);
  return DumpJson(json, 2) + "\n";
}

std::string WriteGenerationConfig(const FrameTokens& tokens) {
  Json json = Json::object();
  AddTokens(tokens, json);
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
  if (type->family != Family::kGpt2) ReadAttention(type->family, fields, spec);
  ReadCommon(fields);
  ReadArchitectures(type->family, fields);
  if (type->family == Family::kGpt2) {
    ReadGpt2(fields, spec);
  } else {
    ReadLlama(*type, fields, spec);
  }
  fields.RefuseOthers();
  MUSTER_RETURN_IF_ERROR(fields.status());
  const bool heads_share_out = spec.head_width() == 0;
  FillTransformerDefaults(spec.vocabulary(), spec);
  if ((heads_share_out && spec.width() % spec.heads() != 0) ||
      spec.heads() % spec.kv_heads() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, ": a width of ", spec.width(), " with ", spec.heads(), " heads and ",
        spec.kv_heads(),
        " key-value heads; the width must be a multiple of the heads, and they of the latter"));
  }
  return absl::OkStatus();
}

std::string ConfigNote(const Spec& spec) { return ExpertsNote(spec); }

}  // namespace muster
