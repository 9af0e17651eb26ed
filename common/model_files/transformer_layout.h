#ifndef MUSTER_COMMON_MODEL_FILES_TRANSFORMER_LAYOUT_H_
#define MUSTER_COMMON_MODEL_FILES_TRANSFORMER_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class TransformerSpec;
}  // namespace v1

// The layout of a transformer in Hugging Face's files. Linear weights are [out, in] in Muster and
// in Llama's files, [in, out] in GPT-2's (its Conv1D). Queries, keys and values are one matrix in
// Muster and in GPT-2's files, three in Llama's. SwiGLU's gate and up are one matrix in Muster and
// two in Llama's files. Both pair rotary elements i and i + head width / 2. The other families are
// Llama's but for a window of attention (Mistral, Mixtral), biases of queries, keys and values
// (Qwen 2), norms of queries and keys (Qwen 3, OLMoE), and feed-forward parts which are experts, or
// experts and dense ones.

enum class HuggingFaceFamily {
  kGpt2,
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
  kMixtral,
  kQwen2Moe,
  kQwen3Moe,
  kOlmoe,
  kDeepseekV3,
};

// Files hold a layer's experts in one of two ways. Apart, as they are published: each expert has
// matrices of its own, gate and up [F, C] and down [C, F], where C is the model's width and F an
// expert's. Fused, as newer programs hold them in memory: gate_up_proj [E, 2 F, C], gate before up
// in each of the E experts, and down_proj [E, C, F]. In Muster, experts' matrices are rows of one
// matrix in the order of fused ones. Files of other families have fused matrices [E, C, 2 F] and
// [E, F, C]; not both of those can have the shapes expected here.
enum class ExpertFiles { kApart, kFused };

// A tensor of a Hugging Face file, and the place of its numbers in Muster's tensor.
struct HuggingFaceTensor {
  std::string name;
  std::vector<int64_t> shape;
  // Muster's tensor that has this one from row `first_row` on, transposed or not. All dimensions
  // but the last count as rows. Empty if Muster's model has no such tensor; then this tensor is
  // zeros.
  std::string muster;
  int64_t first_row = 0;
  bool transposed = false;
};

// A tensor of Muster's, as far as these files describe it.
struct MusterTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Fills the fields that a specification leaves to its defaults (see proto/job.proto), with this
// vocabulary if it names none. Layouts and configurations require specifications that were filled.
void FillTransformerDefaults(int64_t vocabulary, v1::TransformerSpec& spec);

// Returns the family of a transformer, any but kDeepseekV3, whose attention is none of Muster's. A
// GPT-2 without biases counts as a GPT-2 with zero biases. InvalidArgument: the transformer is of
// no such family; the message names the fields that differ from those that are nearest.
absl::StatusOr<HuggingFaceFamily> FamilyOf(const v1::TransformerSpec& spec);

// Returns whether some layers of the family's models are made of experts.
bool HasExperts(HuggingFaceFamily family);

// Returns for each layer whether its feed-forward part is made of experts.
std::vector<bool> LayersWithExperts(const v1::TransformerSpec& spec);

// Returns all tensors of a model file, under the names of GPT2LMHeadModel, LlamaForCausalLM,
// MixtralForCausalLM and so on. REQUIRES: the specification is of the family.
std::vector<HuggingFaceTensor> HuggingFaceTensors(HuggingFaceFamily family,
                                                  const v1::TransformerSpec& spec,
                                                  ExpertFiles experts = ExpertFiles::kApart);

// Returns true if a tensor of this name is in files whose experts are fused, and in no others.
bool IsOfFusedExperts(absl::string_view name);

// Returns the name of the embedding's tensor among these.
const char* EmbeddingName(HuggingFaceFamily family);

// Returns Muster's tensors that these make up, in order of first mention.
std::vector<MusterTensor> MusterTensors(const std::vector<HuggingFaceTensor>& tensors);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_TRANSFORMER_LAYOUT_H_
