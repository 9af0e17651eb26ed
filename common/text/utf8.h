#ifndef MUSTER_COMMON_TEXT_UTF8_H_
#define MUSTER_COMMON_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

struct CodePoint {
  // kInvalidCodePoint if the bytes are no UTF-8.
  uint32_t value = 0;
  // 1 to 4; 1 if the bytes are no UTF-8.
  size_t bytes = 1;
};

inline constexpr uint32_t kInvalidCodePoint = 0xFFFFFFFF;

// Returns the text's first code point, by RFC 3629: no overlong forms, no surrogates, none past
// U+10FFFF. REQUIRES: the text is not empty.
CodePoint FirstCodePoint(absl::string_view text);

// Appends the code point's UTF-8 form. REQUIRES: there is one.
void AppendUtf8(uint32_t code_point, std::string& text);

bool IsUtf8(absl::string_view text);

// Returns any bytes as a proto string may hold them: UTF-8 stays as it is, every other byte is
// written out as \xf6. A receiver could not parse a message with a string that is not UTF-8, and
// would lose all of it.
std::string ToUtf8(absl::string_view text);

// Returns the longest beginning of at most `most` bytes that does not end within a character.
absl::string_view CutUtf8(absl::string_view text, size_t most);

// Returns the text without bytes at its start that end a character whose beginning was cut off.
absl::string_view SkipToCharacter(absl::string_view text);

// Returns how many bytes at the end begin a character whose other bytes may still come: 0 to 3.
size_t UnfinishedBytes(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_UTF8_H_
