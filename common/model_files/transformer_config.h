#ifndef MUSTER_COMMON_MODEL_FILES_TRANSFORMER_CONFIG_H_
#define MUSTER_COMMON_MODEL_FILES_TRANSFORMER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/model_files/transformer_layout.h"

namespace muster {

// The config.json of a transformer, as GPT2Config and LlamaConfig read it. `end_of_text` is its
// tokenizer's. REQUIRES: the specification is complete (FillTransformerDefaults) and of the family.
std::string WriteTransformerConfig(HuggingFaceFamily family, const v1::TransformerSpec& spec,
                                   std::optional<int32_t> end_of_text);

// Reads a config.json; the specification comes out complete. `origin` names it in errors. Each key
// is understood, known to change nothing that the model computes, or refused. InvalidArgument: it
// is no JSON, a key is missing, out of range or unknown, or the model is of another family, or
// computes in a way that Muster does not; the message names key, value, what is understood and what
// would work instead.
absl::Status ParseTransformerConfig(absl::string_view text, const std::string& origin,
                                    v1::TransformerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_TRANSFORMER_CONFIG_H_
