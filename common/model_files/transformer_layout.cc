#include "common/model_files/transformer_layout.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/head_width.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Spec = v1::TransformerSpec;

constexpr uint32_t kFeedForwardMultiple = 64;
constexpr char kGpt2Embedding[] = "transformer.wte.weight";
constexpr char kLlamaEmbedding[] = "model.embed_tokens.weight";
// These have no ".weight".
constexpr char kFusedUp[] = "experts.gate_up_proj";
constexpr char kFusedDown[] = "experts.down_proj";

// Collects tensors; the last parts of Muster's are numbered as they come.
class Layout {
 public:
  void Add(std::string name, std::vector<int64_t> shape, std::string muster) {
    tensors_.push_back({std::move(name), std::move(shape), std::move(muster), 0, false});
  }
  void AddRows(std::string name, std::vector<int64_t> shape, std::string muster,
               int64_t first_row) {
    tensors_.push_back({std::move(name), std::move(shape), std::move(muster), first_row, false});
  }
  void AddTransposed(std::string name, std::vector<int64_t> shape, std::string muster) {
    tensors_.push_back({std::move(name), std::move(shape), std::move(muster), 0, true});
  }

  std::vector<HuggingFaceTensor> Take() { return std::move(tensors_); }

 private:
  std::vector<HuggingFaceTensor> tensors_;
};

std::vector<HuggingFaceTensor> Gpt2Tensors(const Spec& spec) {
  const int64_t C = spec.width();
  const int64_t F = spec.feed_forward();
  const int64_t V = spec.vocabulary();
  Layout layout;
  const auto bias = [&](const std::string& name, int64_t elements, const std::string& muster) {
    layout.Add(name + ".bias", {elements}, spec.no_biases() ? "" : muster + ".bias");
  };
  const auto norm = [&](const std::string& name, const std::string& muster) {
    layout.Add(name + ".weight", {C}, muster + ".weight");
    bias(name, C, muster);
  };
  const auto linear = [&](const std::string& name, int64_t in, int64_t out,
                          const std::string& muster) {
    layout.AddTransposed(name + ".weight", {in, out}, muster + ".weight");
    bias(name, out, muster);
  };
  layout.Add(kGpt2Embedding, {V, C}, "embedding.weight");
  layout.Add("transformer.wpe.weight", {spec.context(), C}, "positions.weight");
  for (uint32_t l = 0; l < spec.layers(); ++l) {
    const std::string name = absl::StrCat("transformer.h.", l, ".");
    const std::string muster = absl::StrCat("block", l, ".");
    norm(name + "ln_1", muster + "norm1");
    linear(name + "attn.c_attn", C, 3 * C, muster + "qkv");
    linear(name + "attn.c_proj", C, C, muster + "proj");
    norm(name + "ln_2", muster + "norm2");
    linear(name + "mlp.c_fc", C, F, muster + "up");
    linear(name + "mlp.c_proj", F, C, muster + "down");
  }
  norm("transformer.ln_f", "norm");
  if (spec.separate_head()) layout.Add("lm_head.weight", {V, C}, "head.weight");
  return layout.Take();
}

// The names of a layer's experts.
struct ExpertNames {
  const char* block;
  const char* gate;
  const char* up;
  const char* down;
  const char* shared;
};

ExpertNames NamesOf(HuggingFaceFamily family, ExpertFiles files) {
  if (family == HuggingFaceFamily::kMixtral && files == ExpertFiles::kApart) {
    return {"block_sparse_moe.", "w1", "w3", "w2", ""};
  }
  return {"mlp.", "gate_proj", "up_proj", "down_proj",
          family == HuggingFaceFamily::kDeepseekV3 ? "shared_experts" : "shared_expert"};
}

// Adds a layer's experts; `name` and `muster` are the layer's prefixes.
void AddExperts(HuggingFaceFamily family, ExpertFiles files, const Spec& spec,
                const std::string& name, const std::string& muster, Layout& layout) {
  const ExpertNames names = NamesOf(family, files);
  const int64_t C = spec.width();
  const int64_t E = spec.moe().experts();
  const int64_t F = spec.moe().expert_width();
  const int64_t S = spec.moe().shared_width();
  const std::string block = name + names.block;
  const std::string up = muster + "experts.up.weight";
  const std::string down = muster + "experts.down.weight";
  layout.Add(block + "gate.weight", {E, C}, muster + "router.weight");
  if (files == ExpertFiles::kFused) {
    layout.Add(absl::StrCat(block, kFusedUp), {E, 2 * F, C}, up);
    layout.Add(absl::StrCat(block, kFusedDown), {E, C, F}, down);
  } else {
    for (int64_t e = 0; e < E; ++e) {
      const std::string expert = absl::StrCat(block, "experts.", e, ".");
      layout.AddRows(absl::StrCat(expert, names.gate, ".weight"), {F, C}, up, e * 2 * F);
      layout.AddRows(absl::StrCat(expert, names.up, ".weight"), {F, C}, up, e * 2 * F + F);
    }
    for (int64_t e = 0; e < E; ++e) {
      layout.AddRows(absl::StrCat(block, "experts.", e, ".", names.down, ".weight"), {C, F}, down,
                     e * C);
    }
  }
  if (S == 0) return;
  const std::string shared = absl::StrCat(block, names.shared, ".");
  layout.AddRows(absl::StrCat(shared, names.gate, ".weight"), {S, C}, muster + "shared.up.weight",
                 0);
  layout.AddRows(absl::StrCat(shared, names.up, ".weight"), {S, C}, muster + "shared.up.weight", S);
  layout.Add(absl::StrCat(shared, names.down, ".weight"), {C, S}, muster + "shared.down.weight");
  if (spec.moe().shared_gate()) {
    layout.Add(absl::StrCat(block, names.shared, "_gate.weight"), {1, C},
               muster + "shared_gate.weight");
  }
}

// The tensors of Llama and of families like it.
std::vector<HuggingFaceTensor> LlamaTensors(HuggingFaceFamily family, ExpertFiles files,
                                            const Spec& spec) {
  const int64_t C = spec.width();
  const int64_t F = spec.feed_forward();
  const int64_t V = spec.vocabulary();
  const int64_t A = int64_t{spec.heads()} * spec.head_width();
  const int64_t kv = int64_t{spec.kv_heads()} * spec.head_width();
  const std::vector<bool> with_experts = LayersWithExperts(spec);
  Layout layout;
  layout.Add(kLlamaEmbedding, {V, C}, "embedding.weight");
  for (uint32_t l = 0; l < spec.layers(); ++l) {
    const std::string name = absl::StrCat("model.layers.", l, ".");
    const std::string muster = absl::StrCat("block", l, ".");
    layout.Add(name + "input_layernorm.weight", {C}, muster + "norm1.weight");
    layout.AddRows(name + "self_attn.q_proj.weight", {A, C}, muster + "qkv.weight", 0);
    layout.AddRows(name + "self_attn.k_proj.weight", {kv, C}, muster + "qkv.weight", A);
    layout.AddRows(name + "self_attn.v_proj.weight", {kv, C}, muster + "qkv.weight", A + kv);
    if (spec.attention_biases()) {
      layout.AddRows(name + "self_attn.q_proj.bias", {A}, muster + "qkv.bias", 0);
      layout.AddRows(name + "self_attn.k_proj.bias", {kv}, muster + "qkv.bias", A);
      layout.AddRows(name + "self_attn.v_proj.bias", {kv}, muster + "qkv.bias", A + kv);
    }
    if (spec.query_key_norm() != Spec::NONE) {
      const bool per_head = spec.query_key_norm() == Spec::PER_HEAD;
      const int64_t D = spec.head_width();
      layout.Add(name + "self_attn.q_norm.weight", {per_head ? D : A},
                 muster + "query_norm.weight");
      layout.Add(name + "self_attn.k_norm.weight", {per_head ? D : kv}, muster + "key_norm.weight");
    }
    layout.Add(name + "self_attn.o_proj.weight", {C, A}, muster + "proj.weight");
    layout.Add(name + "post_attention_layernorm.weight", {C}, muster + "norm2.weight");
    if (with_experts[l]) {
      AddExperts(family, files, spec, name, muster, layout);
      continue;
    }
    layout.AddRows(name + "mlp.gate_proj.weight", {F, C}, muster + "up.weight", 0);
    layout.AddRows(name + "mlp.up_proj.weight", {F, C}, muster + "up.weight", F);
    layout.Add(name + "mlp.down_proj.weight", {C, F}, muster + "down.weight");
  }
  layout.Add("model.norm.weight", {C}, "norm.weight");
  if (spec.separate_head()) layout.Add("lm_head.weight", {V, C}, "head.weight");
  return layout.Take();
}

// The fields in which a transformer differs from a family.
class Differences {
 public:
  void Field(absl::string_view name, absl::string_view value, absl::string_view of_family) {
    if (value == of_family) return;
    all_.push_back(absl::StrCat(name, " ", value, " (it has ", of_family, ")"));
  }
  void Flag(absl::string_view name, bool value, bool of_family) {
    Field(name, value ? "true" : "false", of_family ? "true" : "false");
  }

  bool empty() const { return all_.empty(); }
  std::string Text() const { return absl::StrJoin(all_, ", "); }

 private:
  std::vector<std::string> all_;
};

// Adds how a transformer differs from one with Llama's attention, such as GPT-2's or Mixtral's.
void AddAttention(const Spec& spec, Differences& family) {
  family.Flag("attention_biases", spec.attention_biases(), false);
  family.Field("query_key_norm", Spec::QueryKeyNorm_Name(spec.query_key_norm()), "NONE");
}

// Returns the width of heads that share out the model's. Specifications need not be valid.
uint32_t SharedWidth(const Spec& spec) { return spec.width() / std::max(1u, spec.heads()); }

// Adds whether some layers have no window, though others have one.
void AddWholeLayers(const Spec& spec, Differences& family) {
  family.Field("whole_layers",
               spec.whole_layers().empty() ? "none" : absl::StrJoin(spec.whole_layers(), " and "),
               "none");
}

// Adds whether its tokens attend within a window, which those of the family do not.
void AddWindow(const Spec& spec, Differences& family) {
  family.Field("sliding_window", absl::StrCat(spec.sliding_window()), "0");
}

// Returns how a transformer differs from Llama, apart from attention and experts.
Differences FromLlama(const Spec& spec) {
  Differences llama;
  llama.Field("norm", Spec::Norm_Name(spec.norm()), "RMS_NORM");
  llama.Field("positions", Spec::Positions_Name(spec.positions()), "ROTARY");
  llama.Field("activation", Spec::Activation_Name(spec.activation()), "SWIGLU");
  llama.Flag("no_biases", spec.no_biases(), true);
  // Files say from which context on angles grow, and that is the longest one.
  const v1::RotaryScaling& scaling = spec.rotary_scaling();
  if (scaling.type() == v1::RotaryScaling::DYNAMIC && spec.context() > scaling.original_context()) {
    llama.Field("context", absl::StrCat(spec.context()),
                absl::StrCat(scaling.original_context(), ", the original_context of DYNAMIC"));
  }
  return llama;
}

// Returns how a transformer with experts differs from what all families have.
Differences FromAllWithExperts(const Spec& spec) {
  const v1::MoeSpec& moe = spec.moe();
  Differences all = FromLlama(spec);
  all.Field("moe.scores", v1::MoeSpec::Scores_Name(moe.scores()), "SOFTMAX");
  all.Flag("moe.selection_bias", moe.selection_bias(), false);
  all.Field("moe.scaling", absl::StrCat(moe.scaling()), "1");
  // One group is none.
  all.Field("moe.groups", absl::StrCat(moe.groups() == 1 ? 0 : moe.groups()), "0");
  return all;
}

void AddDenseLayers(const v1::MoeSpec& moe, Differences& family) {
  family.Field("moe.dense_layers",
               moe.dense_layers().empty() ? "none" : absl::StrJoin(moe.dense_layers(), " and "),
               "none");
}

// Returns the family of a transformer with experts and norms of queries and keys.
absl::StatusOr<HuggingFaceFamily> NormedExpertFamilyOf(const Spec& spec) {
  const bool per_head = spec.query_key_norm() == Spec::PER_HEAD;
  Differences family = FromAllWithExperts(spec);
  AddWindow(spec, family);
  family.Flag("attention_biases", spec.attention_biases(), false);
  family.Field("moe.shared_width", absl::StrCat(spec.moe().shared_width()), "0");
  if (!per_head) {
    AddDenseLayers(spec.moe(), family);
    family.Field("head_width", absl::StrCat(spec.head_width()), absl::StrCat(SharedWidth(spec)));
  }
  if (family.empty()) return per_head ? HuggingFaceFamily::kQwen3Moe : HuggingFaceFamily::kOlmoe;
  return absl::InvalidArgumentError(absl::StrCat(
      "Hugging Face's layout is known for transformers with experts and ",
      Spec::QueryKeyNorm_Name(spec.query_key_norm()), " norms of queries and keys of ",
      per_head ? "Qwen3-MoE" : "OLMoE", "'s shape; this one differs from it by ", family.Text()));
}

// Returns the family of a transformer with experts.
absl::StatusOr<HuggingFaceFamily> ExpertFamilyOf(const Spec& spec) {
  if (spec.query_key_norm() != Spec::NONE) return NormedExpertFamilyOf(spec);
  const v1::MoeSpec& moe = spec.moe();
  Differences mixtral = FromAllWithExperts(spec);
  Differences qwen2 = mixtral;
  AddWindow(spec, qwen2);
  AddWholeLayers(spec, mixtral);
  AddAttention(spec, mixtral);
  mixtral.Flag("moe.normalize", moe.normalize(), true);
  mixtral.Field("moe.shared_width", absl::StrCat(moe.shared_width()), "0");
  AddDenseLayers(moe, mixtral);
  qwen2.Field("moe.shared_width", moe.shared_width() == 0 ? "0" : "more", "more");
  qwen2.Flag("moe.shared_gate", moe.shared_gate(), true);
  if (mixtral.empty()) return HuggingFaceFamily::kMixtral;
  if (qwen2.empty()) return HuggingFaceFamily::kQwen2Moe;
  return absl::InvalidArgumentError(absl::StrCat(
      "Hugging Face's layout is known for transformers with experts of Mixtral's and of "
      "Qwen2-MoE's shape; this one differs from Mixtral's by ",
      mixtral.Text(), "; from Qwen2-MoE's by ", qwen2.Text()));
}

// The attention factor is left out in files, too.
void FillScaling(v1::RotaryScaling& scaling) {
  if (scaling.type() == v1::RotaryScaling::LLAMA3) {
    if (scaling.low_factor() == 0) scaling.set_low_factor(1);
    if (scaling.high_factor() == 0) scaling.set_high_factor(4);
  } else if (scaling.type() == v1::RotaryScaling::YARN) {
    if (scaling.beta_fast() == 0) scaling.set_beta_fast(32);
    if (scaling.beta_slow() == 0) scaling.set_beta_slow(1);
  }
}

}  // namespace

void FillTransformerDefaults(int64_t vocabulary, Spec& spec) {
  if (spec.vocabulary() == 0) spec.set_vocabulary(static_cast<uint32_t>(vocabulary));
  if (spec.kv_heads() == 0) spec.set_kv_heads(spec.heads());
  if (spec.norm() == Spec::NORM_UNSPECIFIED) spec.set_norm(Spec::LAYER_NORM);
  if (spec.positions() == Spec::POSITIONS_UNSPECIFIED) spec.set_positions(Spec::LEARNED);
  if (spec.activation() == Spec::ACTIVATION_UNSPECIFIED) spec.set_activation(Spec::GELU);
  if (spec.feed_forward() == 0) {
    const uint32_t C = spec.width();
    spec.set_feed_forward(spec.activation() == Spec::SWIGLU
                              ? (8 * C + 3 * kFeedForwardMultiple - 1) /
                                    (3 * kFeedForwardMultiple) * kFeedForwardMultiple
                              : 4 * C);
  }
  if (spec.head_width() == 0) spec.set_head_width(HeadWidth(spec));
  // Other biases are those of queries, keys and values, too.
  if (!spec.no_biases()) spec.set_attention_biases(false);
  if (spec.query_key_norm() == Spec::QUERY_KEY_NORM_UNSPECIFIED) {
    spec.set_query_key_norm(Spec::NONE);
  }
  if (spec.rotary_base() == 0) spec.set_rotary_base(10000);
  if (spec.has_rotary_scaling()) FillScaling(*spec.mutable_rotary_scaling());
  if (spec.norm_epsilon() == 0) spec.set_norm_epsilon(1e-5f);
  if (!spec.has_moe()) return;
  v1::MoeSpec& moe = *spec.mutable_moe();
  if (moe.expert_width() == 0) moe.set_expert_width(spec.feed_forward());
  if (moe.scores() == v1::MoeSpec::SCORES_UNSPECIFIED) moe.set_scores(v1::MoeSpec::SOFTMAX);
  if (moe.scaling() == 0) moe.set_scaling(1);
  if (moe.auxiliary_scope() == v1::MoeSpec::SCOPE_UNSPECIFIED) {
    moe.set_auxiliary_scope(v1::MoeSpec::SEQUENCE);
  }
}

absl::StatusOr<HuggingFaceFamily> FamilyOf(const Spec& spec) {
  if (spec.has_moe()) return ExpertFamilyOf(spec);
  Differences gpt2;
  gpt2.Field("norm", Spec::Norm_Name(spec.norm()), "LAYER_NORM");
  gpt2.Field("positions", Spec::Positions_Name(spec.positions()), "LEARNED");
  gpt2.Field("activation", Spec::Activation_Name(spec.activation()), "GELU");
  if (spec.kv_heads() != spec.heads()) {
    gpt2.Field("kv_heads", absl::StrCat(spec.kv_heads()), "as many as heads");
  }
  gpt2.Field("head_width", absl::StrCat(spec.head_width()), absl::StrCat(SharedWidth(spec)));
  AddAttention(spec, gpt2);
  AddWindow(spec, gpt2);
  if (gpt2.empty()) return HuggingFaceFamily::kGpt2;
  // The family with this attention.
  Differences other = FromLlama(spec);
  HuggingFaceFamily family = HuggingFaceFamily::kLlama;
  absl::string_view name = "Llama";
  if (spec.query_key_norm() == Spec::PER_HEAD) {
    family = HuggingFaceFamily::kQwen3;
    name = "Qwen 3";
    other.Flag("attention_biases", spec.attention_biases(), false);
  } else if (spec.query_key_norm() == Spec::NONE && spec.attention_biases()) {
    family = HuggingFaceFamily::kQwen2;
    name = "Qwen 2";
  } else if (spec.sliding_window() > 0) {
    family = HuggingFaceFamily::kMistral;
    name = "Mistral";
    AddAttention(spec, other);
    AddWholeLayers(spec, other);
  } else {
    AddAttention(spec, other);
  }
  if (other.empty()) return family;
  return absl::InvalidArgumentError(
      absl::StrCat("Hugging Face's layout is known for transformers of GPT-2's and of ", name,
                   "'s shape; this one differs from GPT-2's by ", gpt2.Text(), "; from ", name,
                   "'s by ", other.Text()));
}

bool HasExperts(HuggingFaceFamily family) {
  switch (family) {
    case HuggingFaceFamily::kGpt2:
    case HuggingFaceFamily::kLlama:
    case HuggingFaceFamily::kMistral:
    case HuggingFaceFamily::kQwen2:
    case HuggingFaceFamily::kQwen3:
      return false;
    case HuggingFaceFamily::kMixtral:
    case HuggingFaceFamily::kQwen2Moe:
    case HuggingFaceFamily::kQwen3Moe:
    case HuggingFaceFamily::kOlmoe:
    case HuggingFaceFamily::kDeepseekV3:
      break;
  }
  return true;
}

std::vector<bool> LayersWithExperts(const Spec& spec) {
  std::vector<bool> with_experts(spec.layers(), spec.has_moe());
  for (const uint32_t layer : spec.moe().dense_layers()) {
    if (layer < spec.layers()) with_experts[layer] = false;
  }
  return with_experts;
}

std::vector<HuggingFaceTensor> HuggingFaceTensors(HuggingFaceFamily family, const Spec& spec,
                                                  ExpertFiles experts) {
  return family == HuggingFaceFamily::kGpt2 ? Gpt2Tensors(spec)
                                            : LlamaTensors(family, experts, spec);
}

bool IsOfFusedExperts(absl::string_view name) { return absl::EndsWith(name, kFusedUp); }

const char* EmbeddingName(HuggingFaceFamily family) {
  return family == HuggingFaceFamily::kGpt2 ? kGpt2Embedding : kLlamaEmbedding;
}

std::vector<MusterTensor> MusterTensors(const std::vector<HuggingFaceTensor>& tensors) {
  std::vector<MusterTensor> all;
  for (const HuggingFaceTensor& tensor : tensors) {
    if (tensor.muster.empty()) continue;
    std::vector<int64_t> shape = tensor.shape;
    if (shape.size() > 2) shape = {shape[0] * shape[1], shape[2]};
    if (tensor.transposed) std::swap(shape[0], shape[1]);
    if (tensor.first_row > 0) {
      // Parts follow one another.
      all.back().shape[0] += shape[0];
    } else {
      all.push_back({tensor.muster, shape});
    }
  }
  return all;
}

}  // namespace muster
