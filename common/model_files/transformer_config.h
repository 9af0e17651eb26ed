#ifndef MUSTER_COMMON_MODEL_FILES_TRANSFORMER_CONFIG_H_
#define MUSTER_COMMON_MODEL_FILES_TRANSFORMER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/model_files/transformer_layout.h"
#include "common/tensor/dtype.h"

namespace muster {

// The tokens that stand before and after what a model writes. There may be none.
struct FrameTokens {
  std::optional<int32_t> begin;
  std::vector<int32_t> ends;
};

// Returns the config.json of a transformer for the family's class of configurations, with weights
// of a type (kF32, kBf16 or kF16). REQUIRES: the specification is complete
// (FillTransformerDefaults) and of the family, as FamilyOf says.
std::string WriteTransformerConfig(HuggingFaceFamily family, const v1::TransformerSpec& spec,
                                   const FrameTokens& tokens, DType type = DType::kF32);

// Returns the generation_config.json, which says where text begins and ends.
std::string WriteGenerationConfig(const FrameTokens& tokens);

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
