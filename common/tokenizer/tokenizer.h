#ifndef MUSTER_COMMON_TOKENIZER_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// Turns any bytes into tokens and back. Decoding gives exactly the encoded bytes, whether they are
// text or not. Immutable, so thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Tokens lie in [0, vocabulary).
  virtual int64_t vocabulary() const = 0;

  // Returns the token that separates documents, if there is one.
  virtual std::optional<int32_t> end_of_text() const = 0;

  // Calls `sink` with the text's tokens in order, some at a time. The text of an added token, such
  // as the end-of-text, becomes that token wherever it occurs.
  virtual void Encode(absl::string_view text,
                      absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const = 0;

  // Returns the first place from `at` on that is known to divide the text: the tokens of what lies
  // before it, then those of what lies behind it, are the text's. The text's end is one.
  // REQUIRES: `at` lies in the text or at its end.
  virtual size_t SplitAfter(absl::string_view text, size_t at) const = 0;

  // Returns the bytes of a token, which may be part of a character. Valid as long as this object.
  // REQUIRES: the token lies in [0, vocabulary).
  virtual absl::string_view BytesOf(int32_t token) const = 0;

  // Returns the tokenizer as a tokenizer.json, empty for plain bytes. Equal tokenizers give equal
  // texts, and ParseTokenizer makes an equal tokenizer from the text.
  virtual const std::string& json() const = 0;

  // Returns a value that is equal for tokenizers that encode alike, wherever their files came from.
  // It is the same in all versions of Muster, which store it beside weights.
  virtual uint64_t fingerprint() const = 0;
};

// Returns all tokens of a text.
std::vector<int32_t> EncodeAll(const Tokenizer& tokenizer, absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_TOKENIZER_H_
