#ifndef MUSTER_COMMON_TOKENIZER_TOKENIZER_IDENTITY_H_
#define MUSTER_COMMON_TOKENIZER_TOKENIZER_IDENTITY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// What is kept of a tokenizer beside the weights that learned from its tokens: tokenizers of one
// size are told apart by nothing in the weights themselves.
struct TokenizerIdentity {
  // Tokenizer::fingerprint().
  uint64_t fingerprint = 0;
  // Where it was found, for messages: "bytes", or the path of a tokenizer or of a token file.
  std::string name;
};

// Refuses tokens of another tokenizer than `weights`, by the name that messages give them, learned
// from. InvalidArgument: names both.
absl::Status CheckSameTokenizer(absl::string_view weights, const TokenizerIdentity& learned,
                                const TokenizerIdentity& given);

// As the metadata of a safetensors file hold it.
void AddToMetadata(const TokenizerIdentity& tokenizer,
                   std::map<std::string, std::string>& metadata);

// None: the metadata do not say, or in a way that is not understood.
std::optional<TokenizerIdentity> TokenizerOfMetadata(
    const std::map<std::string, std::string>& metadata);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_TOKENIZER_IDENTITY_H_
