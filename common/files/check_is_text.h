#ifndef MUSTER_COMMON_FILES_CHECK_IS_TEXT_H_
#define MUSTER_COMMON_FILES_CHECK_IS_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Refuses the bytes of a file that was given as text, but is something else: compressed, an archive
// or document, an image, a program, weights, a table, a token file, text in UTF-16 or UTF-32, or
// any other file with a NUL byte among its first 8 KiB. A model would learn from such bytes without
// any complaint. Text in UTF-8 or in an older encoding, such as Latin-1, passes; a byte-order mark
// of UTF-8 is a part of the text.
//
// JSON on each line is no text either: a model would learn its braces and field names.
//
// InvalidArgument names the file, what it seems to be, and how to make text of it.
absl::Status CheckIsText(const std::string& path, absl::string_view bytes);

// Returns whether each of the first lines that are not blank is a JSON object with a field, or a
// list of such. `text` may be the beginning of a file; the last of its lines may be cut off.
bool IsJsonLines(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_CHECK_IS_TEXT_H_
