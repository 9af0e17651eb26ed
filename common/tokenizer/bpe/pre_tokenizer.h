#ifndef MUSTER_COMMON_TOKENIZER_BPE_PRE_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_BPE_PRE_TOKENIZER_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace muster {

// GPT-2's rule that cuts text into words before pairs are merged, so that no token crosses them:
//
//   's | 't | 're | 've | 'm | 'll | 'd | ?letters+ | ?numbers+ | ?others+ | spaces
//
// The first form that fits at a place is taken, as long as it goes; "?" is one optional U+0020
// before it. Spaces go as far as they reach, but leave their last one to the word after them (which
// takes it as its "?" if it is U+0020). Letters and numbers are Unicode's categories L and N,
// spaces its property White_Space; a byte that is no UTF-8 counts as other.
//
// A word ends after kLongestWord bytes at the latest (whole code points), so that no text makes a
// word without bound: the only difference from GPT-2's rule.
//
// Example: "I'll see  2 dogs!" is cut into "I", "'ll", " see", " ", " 2", " dogs", "!".

inline constexpr size_t kLongestWord = size_t{1} << 16;

// Returns the number of bytes of the first word. REQUIRES: the text is not empty.
size_t FirstWordBytes(absl::string_view text);

// Returns true for places at which a word ends and the next one begins wherever the division into
// words began before, and whether or not the text goes on behind the place: behind a letter or a
// number before which no other of its class follows, and behind an other before a space. Not all
// such places are known. REQUIRES: the place lies before the text's end.
//
// A run of letters ends before what is no letter, and a contraction has no more letters than stand
// before the place; so does a run of numbers. An other that begins a contraction is followed by a
// letter, not by a space. Spaces depend on what follows them, so none ends here.
bool IsAlwaysBetweenWords(absl::string_view text, size_t place);

// Calls `visit` with each word in order; the words together are the text.
void ForEachWord(absl::string_view text, absl::FunctionRef<void(absl::string_view word)> visit);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_PRE_TOKENIZER_H_
