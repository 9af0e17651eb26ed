#ifndef MUSTER_COMMON_TEXT_BYTE_ORDER_MARK_H_
#define MUSTER_COMMON_TEXT_BYTE_ORDER_MARK_H_

#include "absl/strings/string_view.h"

namespace muster {

// Returns the text without a byte-order mark of UTF-8, with which editors and shells of Windows
// begin files. For every file whose content is a notation (jobs, tables, JSON, merges); a text to
// train on keeps all its bytes.
absl::string_view SkipByteOrderMark(absl::string_view text);

// Returns whether a file that should be text in UTF-8 is UTF-16 (or UTF-32): it begins with a mark
// of that, or with a character whose other byte is 0.
bool LooksLikeUtf16(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_BYTE_ORDER_MARK_H_
