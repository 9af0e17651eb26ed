#include "common/model_files/transformer_layout.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Spec = v1::TransformerSpec;

constexpr uint32_t kFeedForwardMultiple = 64;
constexpr char kGpt2Embedding[] = "transformer.wte.weight";
constexpr char kLlamaEmbedding[] = "model.embed_tokens.weight";

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

std::vector<HuggingFaceTensor> LlamaTensors(const Spec& spec) {
  const int64_t C = spec.width();
  const int64_t F = spec.feed_forward();
  const int64_t V = spec.vocabulary();
  const int64_t kv = C / spec.heads() * spec.kv_heads();
  Layout layout;
  layout.Add(kLlamaEmbedding, {V, C}, "embedding.weight");
  for (uint32_t l = 0; l < spec.layers(); ++l) {
    const std::string name = absl::StrCat("model.layers.", l, ".");
    const std::string muster = absl::StrCat("block", l, ".");
    layout.Add(name + "input_layernorm.weight", {C}, muster + "norm1.weight");
    layout.AddRows(name + "self_attn.q_proj.weight", {C, C}, muster + "qkv.weight", 0);
    layout.AddRows(name + "self_attn.k_proj.weight", {kv, C}, muster + "qkv.weight", C);
    layout.AddRows(name + "self_attn.v_proj.weight", {kv, C}, muster + "qkv.weight", C + kv);
    layout.Add(name + "self_attn.o_proj.weight", {C, C}, muster + "proj.weight");
    layout.Add(name + "post_attention_layernorm.weight", {C}, muster + "norm2.weight");
    layout.AddRows(name + "mlp.gate_proj.weight", {F, C}, muster + "up.weight", 0);
    layout.AddRows(name + "mlp.up_proj.weight", {F, C}, muster + "up.weight", F);
    layout.Add(name + "mlp.down_proj.weight", {C, F}, muster + "down.weight");
  }
  layout.Add("model.norm.weight", {C}, "norm.weight");
  if (spec.separate_head()) layout.Add("lm_head.weight", {V, C}, "head.weight");
  return layout.Take();
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
  if (spec.rotary_base() == 0) spec.set_rotary_base(10000);
  if (spec.norm_epsilon() == 0) spec.set_norm_epsilon(1e-5f);
}

absl::StatusOr<HuggingFaceFamily> FamilyOf(const Spec& spec) {
  std::vector<std::string> gpt2;
  std::vector<std::string> llama;
  const auto field = [&](absl::string_view name, const std::string& value,
                         absl::string_view of_gpt2, absl::string_view of_llama) {
    if (value != of_gpt2) gpt2.push_back(absl::StrCat(name, " ", value, " (it has ", of_gpt2, ")"));
    if (value != of_llama) {
      llama.push_back(absl::StrCat(name, " ", value, " (it has ", of_llama, ")"));
    }
  };
  field("norm", Spec::Norm_Name(spec.norm()), "LAYER_NORM", "RMS_NORM");
  field("positions", Spec::Positions_Name(spec.positions()), "LEARNED", "ROTARY");
  field("activation", Spec::Activation_Name(spec.activation()), "GELU", "SWIGLU");
  if (!spec.no_biases()) llama.push_back("no_biases false (it has true)");
  if (spec.kv_heads() != spec.heads()) {
    gpt2.push_back(absl::StrCat("kv_heads ", spec.kv_heads(), " (it has as many as heads)"));
  }
  if (gpt2.empty()) return HuggingFaceFamily::kGpt2;
  if (llama.empty()) return HuggingFaceFamily::kLlama;
  return absl::InvalidArgumentError(
      absl::StrCat("Hugging Face's layout is known for transformers of GPT-2's and of Llama's "
                   "shape; this one differs from GPT-2's by ",
                   absl::StrJoin(gpt2, ", "), "; from Llama's by ", absl::StrJoin(llama, ", ")));
}

std::vector<HuggingFaceTensor> HuggingFaceTensors(HuggingFaceFamily family, const Spec& spec) {
  return family == HuggingFaceFamily::kGpt2 ? Gpt2Tensors(spec) : LlamaTensors(spec);
}

const char* EmbeddingName(HuggingFaceFamily family) {
  return family == HuggingFaceFamily::kGpt2 ? kGpt2Embedding : kLlamaEmbedding;
}

std::vector<MusterTensor> MusterTensors(const std::vector<HuggingFaceTensor>& tensors) {
  std::vector<MusterTensor> all;
  for (const HuggingFaceTensor& tensor : tensors) {
    if (tensor.muster.empty()) continue;
    if (tensor.first_row > 0) {
      // Parts follow one another.
      all.back().shape[0] += tensor.shape[0];
      continue;
    }
    all.push_back({tensor.muster, tensor.shape});
    if (tensor.transposed) std::swap(all.back().shape[0], all.back().shape[1]);
  }
  return all;
}

}  // namespace muster
