#include "common/tokenizer/bpe/pre_tokenizer.h"

#include "absl/strings/match.h"
#include "common/text/utf8.h"
#include "common/tokenizer/bpe/unicode.h"

namespace muster {
namespace {

struct Classified {
  CodePointClass kind = CodePointClass::kOther;
  size_t bytes = 1;
};

Classified First(absl::string_view text) {
  const CodePoint first = FirstCodePoint(text);
  // What is no UTF-8 must not end up in a word with letters: the rule knows only text.
  if (first.value == kInvalidCodePoint) return {CodePointClass::kOther, 1};
  return {ClassOf(first.value), first.bytes};
}

// Bytes of the code points of this class that the text begins with, at most so many.
size_t RunBytes(absl::string_view text, CodePointClass kind, size_t most) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const Classified next = First(text.substr(bytes));
    if (next.kind != kind || bytes + next.bytes > most) break;
    bytes += next.bytes;
  }
  return bytes;
}

// 0: none.
size_t ContractionBytes(absl::string_view text) {
  for (const absl::string_view form : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (absl::StartsWith(text, form)) return form.size();
  }
  return 0;
}

// REQUIRES: the text begins with a space.
size_t SpacesBytes(absl::string_view text) {
  size_t bytes = 0;
  size_t last = 0;
  while (bytes < text.size()) {
    const Classified next = First(text.substr(bytes));
    if (next.kind != CodePointClass::kSpace) {
      // A word follows, which the last space is left to; a single one stays a word of its own.
      return bytes > last ? bytes - last : bytes;
    }
    if (bytes + next.bytes > kLongestWord) return bytes;
    last = next.bytes;
    bytes += next.bytes;
  }
  return bytes;
}

}  // namespace

size_t FirstWordBytes(absl::string_view text) {
  if (text[0] == '\'') {
    if (const size_t bytes = ContractionBytes(text); bytes > 0) return bytes;
  }
  const size_t lead = text[0] == ' ' ? 1 : 0;
  if (lead < text.size()) {
    const CodePointClass kind = First(text.substr(lead)).kind;
    if (kind != CodePointClass::kSpace) {
      return lead + RunBytes(text.substr(lead), kind, kLongestWord - lead);
    }
  }
  return SpacesBytes(text);
}

bool IsAlwaysBetweenWords(absl::string_view text, size_t place) {
  constexpr size_t kLongestCodePoint = 4;
  // The code point that ends at the place; what is no UTF-8 there is left alone.
  Classified before;
  size_t begin = place;
  do {
    if (begin == 0 || place - begin == kLongestCodePoint) return false;
    const CodePoint last = FirstCodePoint(text.substr(--begin));
    if (last.value == kInvalidCodePoint) continue;
    if (begin + last.bytes != place) return false;
    before = {ClassOf(last.value), last.bytes};
    break;
  } while (true);
  const CodePoint next = FirstCodePoint(text.substr(place));
  if (next.value == kInvalidCodePoint) return false;
  const CodePointClass after = ClassOf(next.value);
  switch (before.kind) {
    case CodePointClass::kLetter:
    case CodePointClass::kNumber:
      return after != before.kind;
    case CodePointClass::kOther:
      return after == CodePointClass::kSpace;
    default:
      return false;
  }
}

void ForEachWord(absl::string_view text, absl::FunctionRef<void(absl::string_view word)> visit) {
  while (!text.empty()) {
    const size_t bytes = FirstWordBytes(text);
    visit(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

}  // namespace muster
