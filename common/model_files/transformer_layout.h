#ifndef MUSTER_COMMON_MODEL_FILES_TRANSFORMER_LAYOUT_H_
#define MUSTER_COMMON_MODEL_FILES_TRANSFORMER_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

namespace v1 {
class TransformerSpec;
}  // namespace v1

// The layout of a transformer in Hugging Face's files. Linear weights are [out, in] in Muster and
// in Llama's files, [in, out] in GPT-2's (its Conv1D). Queries, keys and values are one matrix in
// Muster and in GPT-2's files, three in Llama's. SwiGLU's gate and up are one matrix in Muster and
// two in Llama's files. Both pair rotary elements i and i + head width / 2.

enum class HuggingFaceFamily { kGpt2, kLlama };

// A tensor of a Hugging Face file, and the place of its numbers in Muster's tensor.
struct HuggingFaceTensor {
  std::string name;
  std::vector<int64_t> shape;
  // Muster's tensor that has this one from row `first_row` on, transposed or not. Empty if Muster's
  // model has no such tensor; then this tensor is zeros.
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

// Returns the family of a transformer. A GPT-2 without biases counts as a GPT-2 with zero biases.
// InvalidArgument: the transformer is of neither family; the message names the fields that differ
// from each.
absl::StatusOr<HuggingFaceFamily> FamilyOf(const v1::TransformerSpec& spec);

// Returns all tensors of a model file, under the names of GPT2LMHeadModel and LlamaForCausalLM.
// REQUIRES: the specification is of the family.
std::vector<HuggingFaceTensor> HuggingFaceTensors(HuggingFaceFamily family,
                                                  const v1::TransformerSpec& spec);

// Returns the name of the embedding's tensor among these.
const char* EmbeddingName(HuggingFaceFamily family);

// Returns Muster's tensors that these make up, in order of first mention.
std::vector<MusterTensor> MusterTensors(const std::vector<HuggingFaceTensor>& tensors);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_TRANSFORMER_LAYOUT_H_
