#ifndef MUSTER_COMMON_TOKENIZER_TOKENIZER_IDENTITY_H_
#define MUSTER_COMMON_TOKENIZER_TOKENIZER_IDENTITY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Identity of a tokenizer, stored beside the weights that learned from its tokens: the weights
// alone do not tell tokenizers of one size apart.
struct TokenizerIdentity {
  // Tokenizer::fingerprint().
  uint64_t fingerprint = 0;
  // Name for messages: "bytes", or the path of a tokenizer or of a token file.
  std::string name;
};

// Checks that the tokenizer `given` is the one that `weights` learned from; `weights` is their name
// in messages. InvalidArgument: names both tokenizers.
absl::Status CheckSameTokenizer(absl::string_view weights, const TokenizerIdentity& learned,
                                const TokenizerIdentity& given);

// Adds the identity to the metadata of a safetensors file.
void AddToMetadata(const TokenizerIdentity& tokenizer,
                   std::map<std::string, std::string>& metadata);

// Returns the identity in the metadata; nothing if they have none, or one that is not understood.
std::optional<TokenizerIdentity> TokenizerOfMetadata(
    const std::map<std::string, std::string>& metadata);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_TOKENIZER_IDENTITY_H_
