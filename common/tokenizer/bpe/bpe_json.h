#ifndef MUSTER_COMMON_TOKENIZER_BPE_BPE_JSON_H_
#define MUSTER_COMMON_TOKENIZER_BPE_BPE_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct BpeVocabulary;

// Returns the vocabulary as a tokenizer.json that Hugging Face's tokenizers can read, too. Equal
// vocabularies give equal texts.
std::string WriteBpeJson(const BpeVocabulary& vocabulary);

// Reads a tokenizer.json; `origin` names the file in errors. InvalidArgument: the text is not JSON,
// lacks something, or is of another kind than BPE with rules that are understood; the message names
// the field, the kind of its value and what is supported.
absl::StatusOr<BpeVocabulary> ParseBpeJson(absl::string_view text, const std::string& origin);
// The same, of a tokenizer.json that was parsed.
absl::StatusOr<BpeVocabulary> ReadBpeJson(const nlohmann::json& json, const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BPE_JSON_H_
