#include "common/model_files/expert_config.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/model_limits.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Family = HuggingFaceFamily;
using Json = nlohmann::json;
using Spec = v1::TransformerSpec;

constexpr char kAuxiliary[] = "router_aux_loss_coef";

// A family's configuration has these where keys are left out.
struct LeftOut {
  bool normalize;
  double auxiliary;
};

LeftOut LeftOutBy(Family family) {
  // Mixtral has no key for the first.
  if (family == Family::kMixtral) return {true, 0.001};
  if (family == Family::kOlmoe) return {false, 0.01};
  if (family == Family::kDeepseekV3) return {true, 0};
  return {false, 0.001};
}

// Returns the name under which the number of experts is: the same program writes one or another.
const char* ExpertsKey(Family family, const ConfigFields& fields) {
  const char* const own = family == Family::kMixtral      ? "num_local_experts"
                          : family == Family::kDeepseekV3 ? "n_routed_experts"
                                                          : "num_experts";
  for (const char* key : {own, "num_local_experts", "num_experts"}) {
    if (fields.Has(key)) return key;
  }
  return own;
}

int64_t CountLayersWithExperts(const Spec& spec) {
  const std::vector<bool> with_experts = LayersWithExperts(spec);
  return std::count(with_experts.begin(), with_experts.end(), true);
}

// Muster's coefficient over a file's. REQUIRES: some layer has experts.
double AuxiliaryFactor(const Spec& spec) {
  return static_cast<double>(spec.moe().top_k()) /
         static_cast<double>(CountLayersWithExperts(spec));
}

// Returns the decimal number with the fewest digits that is read as this coefficient.
double PublishedAuxiliary(const Spec& spec) {
  const double factor = AuxiliaryFactor(spec);
  double published = spec.moe().auxiliary_loss() / factor;
  for (int digits = 1; digits < 17; ++digits) {
    double rounded = 0;
    if (absl::SimpleAtod(absl::StrFormat("%.*g", digits, published), &rounded) &&
        static_cast<float>(rounded * factor) == spec.moe().auxiliary_loss()) {
      return rounded;
    }
  }
  return published;
}

// Reads which layers are dense. The key that makes the last one so is refused if no layer remains.
void ReadDenseLayers(Family family, ConfigFields& fields, Spec& spec) {
  const char* refused = nullptr;
  std::vector<bool> dense(spec.layers());
  if (family == Family::kQwen2Moe || family == Family::kQwen3Moe) {
    refused = "decoder_sparse_step";
    const uint32_t step = fields.Count(refused, kMaxTransformerLayers, 1);
    for (uint32_t l = 0; l < spec.layers(); ++l) dense[l] = (l + 1) % step != 0;
    for (const uint32_t layer : fields.Indices("mlp_only_layers", spec.layers())) {
      dense[layer] = true;
      refused = "mlp_only_layers";
    }
  } else if (family == Family::kDeepseekV3) {
    refused = "first_k_dense_replace";
    constexpr uint32_t kLeftOut = 3;
    const uint32_t first = fields.Get(refused).is_null()
                               ? kLeftOut
                               : fields.CountOrNone(refused, kMaxTransformerLayers);
    for (uint32_t l = 0; l < std::min(first, spec.layers()); ++l) dense[l] = true;
    fields.Expect("moe_layer_freq", 1);
  }
  for (uint32_t l = 0; l < spec.layers(); ++l) {
    if (dense[l]) spec.mutable_moe()->add_dense_layers(l);
  }
  if (std::find(dense.begin(), dense.end(), false) == dense.end()) {
    fields.Refuse(refused, "no layer has experts then; a model without any is a llama");
  }
}

// Reads what DeepSeek-V3 does otherwise: sigmoid scores, groups of experts, plain shared experts.
void ReadDeepseek(ConfigFields& fields, v1::MoeSpec& moe) {
  fields.ExpectOneOf("scoring_func", {"sigmoid", "softmax"});
  moe.set_scores(fields.Get("scoring_func") == Json("softmax") ? v1::MoeSpec::SOFTMAX
                                                               : v1::MoeSpec::SIGMOID);
  fields.Expect("topk_method", "noaux_tc");
  moe.set_scaling(fields.Positive("routed_scaling_factor", 2.5f));
  const uint32_t groups = fields.Count("n_group", kMaxExperts, 8);
  const uint32_t top_groups = fields.Count("topk_group", groups, std::min(4u, groups));
  if (moe.experts() % groups != 0) {
    fields.Refuse("n_group", absl::StrCat("expected a divisor of the ", moe.experts(), " experts"));
  }
  if (groups > 1) {
    moe.set_groups(groups);
    moe.set_top_groups(top_groups);
  }
  const uint64_t shared =
      uint64_t{fields.CountOrNone("n_shared_experts", kMaxExperts)} * moe.expert_width();
  if (shared > kMaxFeedForward) {
    fields.Refuse("n_shared_experts", absl::StrCat("together they are ", shared,
                                                   " wide, expected at most ", kMaxFeedForward));
  } else {
    moe.set_shared_width(static_cast<uint32_t>(shared));
  }
  // It is the loss of each sequence and layer, as Muster's is.
  moe.set_auxiliary_loss(static_cast<float>(fields.NotNegative("aux_loss_alpha", 0)));
  moe.set_auxiliary_scope(fields.Flag("seq_aux", true) ? v1::MoeSpec::SEQUENCE
                                                       : v1::MoeSpec::MICRO_BATCH);
}

}  // namespace

void ReadExperts(Family family, ConfigFields& fields, Spec& spec) {
  const LeftOut left_out = LeftOutBy(family);
  v1::MoeSpec& moe = *spec.mutable_moe();
  moe.set_experts(fields.Count(ExpertsKey(family, fields), kMaxExperts));
  moe.set_top_k(fields.Count("num_experts_per_tok", moe.experts()));
  const bool as_dense = family == Family::kMixtral || family == Family::kOlmoe;
  moe.set_expert_width(as_dense ? spec.feed_forward()
                                : fields.Count("moe_intermediate_size", kMaxFeedForward));
  moe.set_scores(v1::MoeSpec::SOFTMAX);
  moe.set_normalize(family == Family::kMixtral ||
                    fields.Flag("norm_topk_prob", left_out.normalize));
  moe.set_scaling(1);
  ReadDenseLayers(family, fields, spec);
  // They say how a forward pass is called, and what noise training has.
  fields.Ignore({"output_router_logits", "router_jitter_noise"});
  if (family == Family::kDeepseekV3) return ReadDeepseek(fields, moe);
  if (family == Family::kQwen2Moe) {
    moe.set_shared_width(fields.Count("shared_expert_intermediate_size", kMaxFeedForward));
    moe.set_shared_gate(true);
  }
  const double auxiliary = fields.NotNegative(kAuxiliary, left_out.auxiliary);
  if (!fields.status().ok()) return;
  moe.set_auxiliary_loss(static_cast<float>(auxiliary * AuxiliaryFactor(spec)));
  // The loss is that of all tokens of a forward pass.
  moe.set_auxiliary_scope(v1::MoeSpec::MICRO_BATCH);
}

void WriteExperts(Family family, const Spec& spec, Json& json) {
  const v1::MoeSpec& moe = spec.moe();
  json["num_experts_per_tok"] = moe.top_k();
  json[kAuxiliary] = PublishedAuxiliary(spec);
  json["output_router_logits"] = false;
  if (family == Family::kMixtral) {
    json["num_local_experts"] = moe.experts();
    json["intermediate_size"] = moe.expert_width();
    return;
  }
  json["num_experts"] = moe.experts();
  json["norm_topk_prob"] = moe.normalize();
  if (family == Family::kOlmoe) {
    json["intermediate_size"] = moe.expert_width();
    return;
  }
  json["moe_intermediate_size"] = moe.expert_width();
  if (family == Family::kQwen2Moe) json["shared_expert_intermediate_size"] = moe.shared_width();
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] =
      std::vector<uint32_t>(moe.dense_layers().begin(), moe.dense_layers().end());
}

std::string ExpertsNote(const Spec& spec) {
  const v1::MoeSpec& moe = spec.moe();
  if (moe.auxiliary_loss() == 0 || moe.auxiliary_scope() != v1::MoeSpec::MICRO_BATCH) return "";
  return absl::StrFormat(
      "moe.auxiliary_loss is %g: the file's %s %g, times top_k %d, over %d layers with experts; "
      "Muster divides choices by top_k, and adds the losses of layers",
      moe.auxiliary_loss(), kAuxiliary, PublishedAuxiliary(spec), moe.top_k(),
      CountLayersWithExperts(spec));
}

}  // namespace muster
