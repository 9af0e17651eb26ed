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

// The context before a text that is encoded.
enum class TextStart {
  // Nothing: it begins a document. The tokens that the tokenizer puts before each document come
  // first.
  kDocument,
  // Nothing, but it brings the tokens before a document itself, as chats do.
  kText,
  // Other text of the same document.
  kWithin,
};

// Turns texts into tokens and back. Any bytes can be encoded. Decoding gives exactly the encoded
// bytes, whether they are text or not, unless the tokenizer normalizes texts: then it gives what
// these become, and some tokenizers put a space before a text. Immutable, so thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Tokens lie in [0, vocabulary).
  virtual int64_t vocabulary() const = 0;

  // Returns the token that separates documents, if there is one.
  virtual std::optional<int32_t> end_of_text() const = 0;

  // Returns the tokens that stand before each document, such as a beginning-of-text.
  virtual absl::Span<const int32_t> before_document() const = 0;

  // Calls `sink` with the text's tokens in order, some at a time. The text of an added token, such
  // as the end-of-text, becomes that token wherever it occurs.
  virtual void Encode(absl::string_view text, TextStart start,
                      absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const = 0;

  // Returns the first place from `at` on that is known to divide the text: the tokens of what lies
  // before it, then those of what lies behind it as kWithin, are the text's. The text's end is one.
  // REQUIRES: `at` lies in the text or at its end, and the text begins a document, or where it was
  // divided so.
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

// Returns whether a token stands between documents, not for text in them: an end-of-text, or one of
// before_document().
bool IsBetweenDocuments(const Tokenizer& tokenizer, int32_t token);

// Returns all tokens of a text.
std::vector<int32_t> EncodeAll(const Tokenizer& tokenizer, absl::string_view text,
                               TextStart start = TextStart::kDocument);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_TOKENIZER_H_
