#ifndef MUSTER_COMMON_TOKENIZER_WORDS_TOKEN_TEXT_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_TOKEN_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "common/tokenizer/words/text_rules.h"

namespace muster {

// Returns the byte that a token such as "<0x0A>" stands for; -1 if it is no such token.
int ByteOfToken(absl::string_view token);

// Returns the bytes that a token of characters is decoded to.
std::string BytesOfText(absl::string_view token, const ReadTextRules& rules);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_TOKEN_TEXT_H_
