#ifndef MUSTER_COMMON_TOKENIZER_BPE_BYTE_LEVEL_H_
#define MUSTER_COMMON_TOKENIZER_BPE_BYTE_LEVEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// GPT-2's way to write tokens, which are bytes, as readable text in vocabulary files: the bytes
// 33–126, 161–172 and 174–255 stand for the characters of those numbers, the 68 others, in order,
// for U+0100 and on. So a space is written "Ġ".

// All bytes in the order of the characters they are written as: that of the tokens in a new
// vocabulary.
const std::array<uint8_t, 256>& ByteLevelOrder();

// The text that these bytes are written as.
std::string ToByteLevel(absl::string_view bytes);

// The bytes that a text was written from; none if it has a character that stands for no byte.
std::optional<std::string> FromByteLevel(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BYTE_LEVEL_H_
