#include "common/model_files/rotary_config.h"

#include "common/base/model_limits.h"
#include "common/model_files/shortest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using Scaling = v1::RotaryScaling;
using Spec = v1::TransformerSpec;

constexpr char kOriginal[] = "original_max_position_embeddings";

// Returns a number that must be there.
float Required(ConfigFields& fields, const char* key) {
  if (fields.Get(key).is_null()) fields.Refuse(key, "expected a number above 0");
  return fields.Positive(key, 1);
}

// Reads the numbers of a type of scaling.
void ReadNumbers(ConfigFields& fields, uint32_t context, Scaling& scaling) {
  scaling.set_factor(Required(fields, "factor"));
  if (scaling.type() == Scaling::LINEAR) return;
  if (scaling.type() == Scaling::DYNAMIC) {
    scaling.set_original_context(fields.Count(kOriginal, kMaxContext, context));
    return;
  }
  if (scaling.type() == Scaling::LLAMA3) {
    scaling.set_original_context(fields.Count(kOriginal, kMaxContext));
    scaling.set_low_factor(Required(fields, "low_freq_factor"));
    scaling.set_high_factor(Required(fields, "high_freq_factor"));
    return;
  }
  scaling.set_original_context(fields.Count(kOriginal, kMaxContext, context));
  scaling.set_beta_fast(fields.Positive("beta_fast", 32));
  scaling.set_beta_slow(fields.Positive("beta_slow", 1));
  scaling.set_attention_factor(fields.Positive("attention_factor", 0));
  fields.Expect("truncate", true, "the limits of scaled pairs are whole here");
  fields.Expect("mscale", nullptr, "write the factor that it makes as attention_factor");
  fields.Expect("mscale_all_dim", nullptr, "write the factor that it makes as attention_factor");
  // It says where weights come from.
  fields.Ignore({"finetuned"});
}

// Reads one of the two objects, which is perhaps not there.
void ReadObject(ConfigFields& fields, const char* key, Spec& spec) {
  const Json& json = fields.Get(key);
  if (json.is_null()) return;
  if (!json.is_object()) return fields.Refuse(key, "expected an object");
  ConfigFields object(json, "of these");
  spec.set_rotary_base(object.Positive("rope_theta", spec.rotary_base()));
  object.Expect("partial_rotary_factor", 1);
  const Json& old_name = object.Get("type");
  const Json& type = object.Has("rope_type") ? object.Get("rope_type") : old_name;
  if (type == Json("linear") || type == Json("llama3") || type == Json("yarn") ||
      type == Json("dynamic")) {
    Scaling& scaling = *spec.mutable_rotary_scaling();
    scaling.set_type(type == Json("linear")   ? Scaling::LINEAR
                     : type == Json("llama3") ? Scaling::LLAMA3
                     : type == Json("yarn")   ? Scaling::YARN
                                              : Scaling::DYNAMIC);
    ReadNumbers(object, spec.context(), scaling);
  } else if (!type.is_null() && type != Json("default")) {
    object.Refuse(
        object.Has("rope_type") ? "rope_type" : "type",
        "only \"default\", \"linear\", \"llama3\", \"yarn\" and \"dynamic\" are understood");
  }
  object.RefuseOthers();
  if (!object.status().ok()) fields.Refuse(key, object.status().message());
}

}  // namespace

void ReadRotary(ConfigFields& fields, float left_out, Spec& spec) {
  spec.set_rotary_base(fields.Positive("rope_theta", left_out));
  ReadObject(fields, "rope_scaling", spec);
  ReadObject(fields, "rope_parameters", spec);
  fields.Expect("partial_rotary_factor", 1);
  // Pairs of elements do not alternate: these families' files have their halves one after the
  // other.
  fields.Expect("rope_interleaved", false);
}

void WriteRotary(const Spec& spec, Json& json) {
  json["rope_theta"] = Shortest(spec.rotary_base());
  json["rope_scaling"] = nullptr;
  if (!spec.has_rotary_scaling()) return;
  const Scaling& scaling = spec.rotary_scaling();
  Json object = {{"factor", Shortest(scaling.factor())}};
  if (scaling.type() == Scaling::LINEAR) {
    object["rope_type"] = "linear";
  } else if (scaling.type() == Scaling::DYNAMIC) {
    object["rope_type"] = "dynamic";
    object[kOriginal] = scaling.original_context();
  } else if (scaling.type() == Scaling::LLAMA3) {
    object["rope_type"] = "llama3";
    object[kOriginal] = scaling.original_context();
    object["low_freq_factor"] = Shortest(scaling.low_factor());
    object["high_freq_factor"] = Shortest(scaling.high_factor());
  } else {
    object["rope_type"] = "yarn";
    object[kOriginal] = scaling.original_context();
    object["beta_fast"] = Shortest(scaling.beta_fast());
    object["beta_slow"] = Shortest(scaling.beta_slow());
    if (scaling.attention_factor() > 0) {
      object["attention_factor"] = Shortest(scaling.attention_factor());
    }
  }
  json["rope_scaling"] = object;
}

}  // namespace muster
