#include "server/coordinator/requests/fits_pattern.h"

#include "common/text/utf8.h"

namespace muster {

// At a misfit the last `*` takes one more byte.
bool FitsPattern(absl::string_view pattern, absl::string_view text) {
  // Pattern after the last `*`, and the text that it was tried on.
  absl::string_view after_star, tried;
  bool star = false;
  while (true) {
    if (!pattern.empty() && pattern[0] == '*') {
      pattern.remove_prefix(1);
      after_star = pattern;
      tried = text;
      star = true;
    } else if (text.empty() && pattern.empty()) {
      return true;
    } else if (!text.empty() && !pattern.empty() && pattern[0] == '?') {
      text.remove_prefix(FirstCodePoint(text).bytes);
      pattern.remove_prefix(1);
    } else if (!text.empty() && !pattern.empty() && pattern[0] == text[0]) {
      text.remove_prefix(1);
      pattern.remove_prefix(1);
    } else if (star && !tried.empty()) {
      tried.remove_prefix(1);
      text = tried;
      pattern = after_star;
    } else {
      return false;
    }
  }
}

}  // namespace muster
