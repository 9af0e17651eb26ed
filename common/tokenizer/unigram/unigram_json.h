#ifndef MUSTER_COMMON_TOKENIZER_UNIGRAM_UNIGRAM_JSON_H_
#define MUSTER_COMMON_TOKENIZER_UNIGRAM_UNIGRAM_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace muster {

struct UnigramVocabulary;

// Returns the vocabulary as a tokenizer.json that Hugging Face's tokenizers can read, too. Equal
// vocabularies give equal texts.
std::string WriteUnigramJson(const UnigramVocabulary& vocabulary);

// Reads a tokenizer.json whose model is Unigram; `origin` names the file in errors.
// InvalidArgument: it lacks something, or has rules that are not understood; the message names the
// field, the kind of its value and what is supported.
absl::StatusOr<UnigramVocabulary> ReadUnigramJson(const nlohmann::json& json,
                                                  const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_UNIGRAM_UNIGRAM_JSON_H_
