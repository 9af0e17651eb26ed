#ifndef MUSTER_COMMON_TOKENIZER_UNICODE_H_
#define MUSTER_COMMON_TOKENIZER_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// The classes that GPT-2's rule tells apart: general category L, N, the property White_Space, and
// all others.
enum class CodePointClass : uint8_t { kLetter, kNumber, kSpace, kOther };

CodePointClass ClassOf(uint32_t code_point);

struct CodePoint {
  // 0xFFFFFFFF where the bytes are no UTF-8.
  uint32_t value = 0;
  // 1 to 4; 1 where the bytes are no UTF-8.
  size_t bytes = 1;
};

inline constexpr uint32_t kInvalidCodePoint = 0xFFFFFFFF;

// The code point that the text begins with, by RFC 3629: no overlong forms, no surrogates, none
// past U+10FFFF. REQUIRES: the text is not empty.
CodePoint FirstCodePoint(absl::string_view text);

// Appends the UTF-8 form. REQUIRES: a code point that has one.
void AppendUtf8(uint32_t code_point, std::string& text);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_UNICODE_H_
