#ifndef MUSTER_COMMON_TOKENIZER_DECODE_FOR_TESTING_H_
#define MUSTER_COMMON_TOKENIZER_DECODE_FOR_TESTING_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// Returns the bytes of tokens. REQUIRES: as BytesOf.
inline std::string Decode(const Tokenizer& tokenizer, absl::Span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) absl::StrAppend(&text, tokenizer.BytesOf(token));
  return text;
}

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_DECODE_FOR_TESTING_H_
