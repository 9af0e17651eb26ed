#include "common/model_files/transformer_config.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/model_limits.h"
#include "common/base/status_macros.h"
#include "common/files/parse_json.h"
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

// Reads fields one after another; the first that is wrong is remembered.
class Fields {
 public:
  Fields(const Json& json, const std::string& origin) : json_(json), origin_(origin) {}

  const absl::Status& status() const { return status_; }

  // The field; null if it is not there.
  const Json& Get(const char* name) const {
    static const Json null;
    const auto found = json_.find(name);
    return found == json_.end() ? null : *found;
  }

  uint32_t Count(const char* name, uint64_t most) {
    const Json& value = Get(name);
    if (!value.is_number_integer() || value < Json(1) || value > Json(most)) {
      Refuse(name, absl::StrCat("expected a whole number from 1 to ", most));
      return 1;
    }
    return value.get<uint32_t>();
  }

  uint32_t Count(const char* name, uint64_t most, uint32_t left_out) {
    return Get(name).is_null() ? left_out : Count(name, most);
  }

  float Positive(const char* name, float left_out) {
    const Json& value = Get(name);
    if (value.is_null()) return left_out;
    if (!value.is_number() || !(value.get<double>() > 0)) {
      Refuse(name, "expected a number above 0");
      return left_out;
    }
    return value.get<float>();
  }

  float Probability(const char* name, float left_out) {
    const Json& value = Get(name);
    if (value.is_null()) return left_out;
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() < 1)) {
      Refuse(name, "expected a number from 0 to below 1");
      return left_out;
    }
    return value.get<float>();
  }

  // A field whose other values mean another computation.
  void Expect(const char* name, const Json& expected) {
    if (!Get(name).is_null() && Get(name) != expected) {
      Refuse(name, absl::StrCat("only ", DumpJson(expected), " is understood"));
    }
  }

  void ExpectNull(const char* name) {
    if (!Get(name).is_null()) Refuse(name, "only models without it are understood");
  }

  bool Flag(const char* name, bool left_out) {
    const Json& value = Get(name);
    if (value.is_null()) return left_out;
    if (!value.is_boolean()) {
      Refuse(name, "expected true or false");
      return left_out;
    }
    return value.get<bool>();
  }

  void Refuse(const char* name, absl::string_view expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(origin_, ": ", name, " is ", DumpJson(Get(name)), "; ", expected));
  }

 private:
  const Json& json_;
  const std::string& origin_;
  absl::Status status_;
};

absl::Status ParseGpt2(Fields& fields, Spec& spec) {
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
  const Json& activation = fields.Get("activation_function");
  if (!activation.is_null() && activation != Json("gelu_new") &&
      activation != Json("gelu_pytorch_tanh")) {
    fields.Refuse("activation_function",
                  "only \"gelu_new\" and \"gelu_pytorch_tanh\" are understood");
  }
  fields.Expect("scale_attn_weights", true);
  fields.Expect("scale_attn_by_inverse_layer_idx", false);
  fields.Expect("add_cross_attention", false);
  return fields.status();
}

absl::Status ParseLlama(Fields& fields, Spec& spec) {
  spec.set_layers(fields.Count("num_hidden_layers", kMaxTransformerLayers));
  spec.set_width(fields.Count("hidden_size", kMaxWidth));
  spec.set_heads(fields.Count("num_attention_heads", kMaxWidth));
  spec.set_kv_heads(fields.Count("num_key_value_heads", kMaxWidth, spec.heads()));
  spec.set_feed_forward(fields.Count("intermediate_size", kMaxFeedForward));
  spec.set_vocabulary(fields.Count("vocab_size", kMaxVocabulary));
  spec.set_context(fields.Count("max_position_embeddings", kMaxContext));
  spec.set_norm(Spec::RMS_NORM);
  spec.set_positions(Spec::ROTARY);
  spec.set_activation(Spec::SWIGLU);
  spec.set_no_biases(true);
  spec.set_attention_dropout(fields.Probability("attention_dropout", 0));
  spec.set_norm_epsilon(fields.Positive("rms_norm_eps", 1e-6f));
  spec.set_separate_head(!fields.Flag("tie_word_embeddings", false));
  spec.set_rotary_base(fields.Positive("rope_theta", 10000));
  // Newer files keep the base in here.
  const Json& rotary = fields.Get("rope_parameters");
  if (rotary.is_object()) {
    const auto type = rotary.find("rope_type");
    const auto base = rotary.find("rope_theta");
    if (type != rotary.end() && *type != Json("default")) {
      fields.Refuse("rope_parameters", "only the rope_type \"default\" is understood");
    }
    if (base != rotary.end() && base->is_number() && base->get<double>() > 0) {
      spec.set_rotary_base(base->get<float>());
    }
  }
  fields.ExpectNull("rope_scaling");
  fields.Expect("hidden_act", "silu");
  fields.Expect("attention_bias", false);
  fields.Expect("mlp_bias", false);
  if (fields.status().ok() && spec.width() % spec.heads() == 0) {
    fields.Expect("head_dim", spec.width() / spec.heads());
  }
  return fields.status();
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
    json = {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"num_hidden_layers", spec.layers()},
            {"hidden_size", spec.width()},
            {"num_attention_heads", spec.heads()},
            {"num_key_value_heads", spec.kv_heads()},
            {"intermediate_size", spec.feed_forward()},
            {"max_position_embeddings", spec.context()},
            {"hidden_act", "silu"},
            {"rms_norm_eps", Shortest(spec.norm_epsilon())},
            {"rope_theta", Shortest(spec.rotary_base())},
            {"rope_scaling", nullptr},
            {"attention_bias", false},
            {"mlp_bias", false},
            {"attention_dropout", Shortest(spec.attention_dropout())},
            {"initializer_range", 0.02}};
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
  Fields fields(json, origin);
  const Json& family = fields.Get("model_type");
  if (family == Json("gpt2")) {
    MUSTER_RETURN_IF_ERROR(ParseGpt2(fields, spec));
  } else if (family == Json("llama")) {
    MUSTER_RETURN_IF_ERROR(ParseLlama(fields, spec));
  } else {
    fields.Refuse("model_type", "only \"gpt2\" and \"llama\" are understood");
    return fields.status();
  }
  FillTransformerDefaults(spec.vocabulary(), spec);
  if (spec.width() % spec.heads() != 0 || spec.heads() % spec.kv_heads() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, ": a width of ", spec.width(), " with ", spec.heads(), " heads and ",
        spec.kv_heads(),
        " key-value heads; the width must be a multiple of the heads, and they of the latter"));
  }
  return absl::OkStatus();
}

}  // namespace muster
