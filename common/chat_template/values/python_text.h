#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_PYTHON_TEXT_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_PYTHON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// These do what methods of Python's str do, for UTF-8: they count characters (code points), and
// whitespace is what Unicode calls so.

bool IsPythonSpace(uint32_t code_point);

size_t CountCharacters(absl::string_view text);

// Returns each character as a part of `text`.
std::vector<absl::string_view> Characters(absl::string_view text);

enum class Side { kBoth, kLeft, kRight };

// Removes whitespace at the ends.
absl::string_view Strip(absl::string_view text, Side side = Side::kBoth);
// Removes characters that are in `characters`.
absl::string_view Strip(absl::string_view text, absl::string_view characters, Side side);

// Splits at whitespace, and at `separator`, at most `most` times; below 0: at all. The second fails
// if the separator is empty.
std::vector<std::string> SplitAtSpace(absl::string_view text, int64_t most);
absl::StatusOr<std::vector<std::string>> SplitAt(absl::string_view text,
                                                 absl::string_view separator, int64_t most);

// Splits into lines at all that Python takes for an end of line.
std::vector<std::string> SplitLines(absl::string_view text);

// Each changes the case of ASCII text, and fails if the text has other characters: their cases are
// not in the subset.
absl::StatusOr<std::string> Upper(absl::string_view text);
absl::StatusOr<std::string> Lower(absl::string_view text);
absl::StatusOr<std::string> Capitalize(absl::string_view text);
// Python's str.title: a letter is upper after anything but a letter.
absl::StatusOr<std::string> TitleMethod(absl::string_view text);
// Jinja's filter: a letter is upper after whitespace, '-' and opening brackets.
absl::StatusOr<std::string> TitleFilter(absl::string_view text);

// Returns where `part` first begins; npos if it does not occur. Takes time with the length of both,
// whatever they are, which string_view::find does not.
size_t FindText(absl::string_view text, absl::string_view part);

// Returns how many times `part` occurs in the text, each after the one before. REQUIRES: `part` is
// not empty.
size_t CountOccurrences(absl::string_view text, absl::string_view part);

// Replaces `from` at most `most` times; below 0: all. An empty `from` is between all characters.
std::string Replace(absl::string_view text, absl::string_view from, absl::string_view to,
                    int64_t most);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_PYTHON_TEXT_H_
