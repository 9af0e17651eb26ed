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

// How Hugging Face's files hold what Muster calls a transformer. Linear weights are [out, in] here
// and in Llama's files, [in, out] in GPT-2's (its Conv1D). Queries, keys and values are one matrix
// here and in GPT-2's, three in Llama's; SwiGLU's gate and up are one here and two there. Both pair
// rotary elements i and i + head width / 2.

enum class HuggingFaceFamily { kGpt2, kLlama };

// A tensor of a Hugging Face file, and where Muster's has the same numbers.
struct HuggingFaceTensor {
  std::string name;
  std::vector<int64_t> shape;
  // Muster's tensor, whose rows from `first_row` on this one is, transposed or as it is. Empty:
  // Muster's model has none, and this one is zeros.
  std::string muster;
  int64_t first_row = 0;
  bool transposed = false;
};

// A tensor of Muster's, as far as these files say it.
struct MusterTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Fills in what a specification leaves to its defaults (proto/job.proto tells them), with this
// vocabulary where it names none. Layouts and configurations want specifications that went through
// this.
void FillTransformerDefaults(int64_t vocabulary, v1::TransformerSpec& spec);

// The family that a transformer is of; GPT-2's without biases is one of GPT-2's, with zeros in
// their place. InvalidArgument: neither; the message names the fields that differ from each.
absl::StatusOr<HuggingFaceFamily> FamilyOf(const v1::TransformerSpec& spec);

// All tensors of a model file, under the names that GPT2LMHeadModel and LlamaForCausalLM give them.
// REQUIRES: the specification is of the family.
std::vector<HuggingFaceTensor> HuggingFaceTensors(HuggingFaceFamily family,
                                                  const v1::TransformerSpec& spec);

// The name of the embedding's tensor among them.
const char* EmbeddingName(HuggingFaceFamily family);

// Muster's tensors that these make up, in order of first mention.
std::vector<MusterTensor> MusterTensors(const std::vector<HuggingFaceTensor>& tensors);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_TRANSFORMER_LAYOUT_H_
