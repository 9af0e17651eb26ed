#ifndef MUSTER_COMMON_TOKENIZER_BPE_UNICODE_H_
#define MUSTER_COMMON_TOKENIZER_BPE_UNICODE_H_

#include <cstdint>

namespace muster {

// Classes of code points that GPT-2's rule tells apart: general category L, general category N,
// property White_Space, and all others.
enum class CodePointClass : uint8_t { kLetter, kNumber, kSpace, kOther };

CodePointClass ClassOf(uint32_t code_point);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_UNICODE_H_
