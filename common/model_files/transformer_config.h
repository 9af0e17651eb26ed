#ifndef MUSTER_COMMON_MODEL_FILES_TRANSFORMER_CONFIG_H_
#define MUSTER_COMMON_MODEL_FILES_TRANSFORMER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/model_files/transformer_layout.h"

namespace muster {

// Returns the config.json of a transformer for GPT2Config, LlamaConfig, MixtralConfig or
// Qwen2MoeConfig. `end_of_text` is the tokenizer's. REQUIRES: the specification is complete
// (FillTransformerDefaults) and of the family, as FamilyOf says.
std::string WriteTransformerConfig(HuggingFaceFamily family, const v1::TransformerSpec& spec,
                                   std::optional<int32_t> end_of_text);

// Reads a config.json into a complete specification. `origin` names the file in errors. Each key is
// supported, known not to change what the model computes, or refused. InvalidArgument: the text is
// not JSON; a key is missing, out of range or unknown; or the model is of another family, or
// computes in a way that Muster does not. The message names key, value, what is supported and what
// would work instead.
absl::Status ParseTransformerConfig(absl::string_view text, const std::string& origin,
                                    v1::TransformerSpec& spec);

// Returns what a user should know of a specification that ParseTransformerConfig read: a number
// that is not the file's but comes from it. Empty: nothing.
std::string ConfigNote(const v1::TransformerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_TRANSFORMER_CONFIG_H_
