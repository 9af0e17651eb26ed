#ifndef MUSTER_COMMON_TOKENIZER_WORDS_WORD_ENCODER_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_WORD_ENCODER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/words/text_divider.h"

namespace muster {

// Encodes a text as Tokenizer::Encode says: divides it, gives its words to `encode_word`, which
// replaces `tokens` by a word's tokens, and the tokens to `sink`. A word met before in the text is
// looked up in a table.
void EncodeWords(
    const TextDivider& divider, absl::string_view text, TextStart start,
    absl::FunctionRef<void(absl::string_view word, std::vector<int32_t>& tokens)> encode_word,
    absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_WORD_ENCODER_H_
