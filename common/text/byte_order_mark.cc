#include "common/text/byte_order_mark.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace muster {

absl::string_view SkipByteOrderMark(absl::string_view text) {
  return absl::StripPrefix(text, "\xef\xbb\xbf");
}

bool LooksLikeUtf16(absl::string_view text) {
  if (absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff")) return true;
  return text.size() >= 2 && (text[0] == '\0') != (text[1] == '\0');
}

}  // namespace muster
