#ifndef MUSTER_COMMON_TOKENIZER_BPE_BYTE_LEVEL_H_
#define MUSTER_COMMON_TOKENIZER_BPE_BYTE_LEVEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// GPT-2's way to write tokens, which are bytes, as readable text in vocabulary files. The bytes
// 33–126, 161–172 and 174–255 are written as the characters of those numbers; the 68 other bytes,
// in order, as the characters from U+0100 on. So a space is written "Ġ".

// Returns all bytes in the order of the characters they are written as, which is the order of
// tokens in a new vocabulary.
const std::array<uint8_t, 256>& ByteLevelOrder();

// Returns the text that writes these bytes.
std::string ToByteLevel(absl::string_view bytes);

// Returns the bytes that a text writes, or nothing if it has a character that writes no byte.
std::optional<std::string> FromByteLevel(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BYTE_LEVEL_H_
