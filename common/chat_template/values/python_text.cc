#include "common/chat_template/values/python_text.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

// Returns the last character's code point and size. REQUIRES: the text is not empty.
CodePoint LastCodePoint(absl::string_view text) {
  constexpr size_t kMostBytes = 4;
  for (size_t bytes = 2; bytes <= std::min(kMostBytes, text.size()); ++bytes) {
    const CodePoint last = FirstCodePoint(text.substr(text.size() - bytes));
    if (last.bytes == bytes) return last;
  }
  return FirstCodePoint(text.substr(text.size() - 1));
}

template <typename Removed>
absl::string_view StripWhere(absl::string_view text, Side side, const Removed& removed) {
  while (side != Side::kRight && !text.empty()) {
    const CodePoint first = FirstCodePoint(text);
    if (!removed(text.substr(0, first.bytes), first.value)) break;
    text.remove_prefix(first.bytes);
  }
  while (side != Side::kLeft && !text.empty()) {
    const CodePoint last = LastCodePoint(text);
    if (!removed(text.substr(text.size() - last.bytes), last.value)) break;
    text.remove_suffix(last.bytes);
  }
  return text;
}

absl::Status CheckAscii(absl::string_view text) {
  if (std::all_of(text.begin(), text.end(), absl::ascii_isascii)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "upper, lower, title and capitalize know ASCII alone, and this text has other characters; "
      "write it in the case that it should have");
}

template <typename Begins>
absl::StatusOr<std::string> Title(absl::string_view text, const Begins& begins) {
  MUSTER_RETURN_IF_ERROR(CheckAscii(text));
  std::string title(text);
  bool begin = true;
  for (char& letter : title) {
    const char before = letter;
    letter = begin ? absl::ascii_toupper(letter) : absl::ascii_tolower(letter);
    begin = begins(before);
  }
  return title;
}

bool EndsLine(uint32_t value) {
  return (value >= 0x0a && value <= 0x0d) || (value >= 0x1c && value <= 0x1e) || value == 0x85 ||
         value == 0x2028 || value == 0x2029;
}

}  // namespace

bool IsPythonSpace(uint32_t value) {
  return (value >= 0x09 && value <= 0x0d) || (value >= 0x1c && value <= 0x20) || value == 0x85 ||
         value == 0xa0 || value == 0x1680 || (value >= 0x2000 && value <= 0x200a) ||
         value == 0x2028 || value == 0x2029 || value == 0x202f || value == 0x205f ||
         value == 0x3000;
}

size_t CountCharacters(absl::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(FirstCodePoint(text).bytes);
  return count;
}

std::vector<absl::string_view> Characters(absl::string_view text) {
  std::vector<absl::string_view> characters;
  while (!text.empty()) {
    const size_t bytes = FirstCodePoint(text).bytes;
    characters.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return characters;
}

absl::string_view Strip(absl::string_view text, Side side) {
  return StripWhere(text, side,
                    [](absl::string_view, uint32_t value) { return IsPythonSpace(value); });
}

absl::string_view Strip(absl::string_view text, absl::string_view characters, Side side) {
  return StripWhere(text, side, [characters](absl::string_view character, uint32_t) {
    return FindText(characters, character) != absl::string_view::npos;
  });
}

std::vector<std::string> SplitAtSpace(absl::string_view text, int64_t most) {
  std::vector<std::string> parts;
  for (text = Strip(text, Side::kLeft); !text.empty(); text = Strip(text, Side::kLeft)) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.emplace_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const CodePoint next = FirstCodePoint(text.substr(end));
      if (IsPythonSpace(next.value)) break;
      end += next.bytes;
    }
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

absl::StatusOr<std::vector<std::string>> SplitAt(absl::string_view text,
                                                 absl::string_view separator, int64_t most) {
  if (separator.empty()) {
    return absl::InvalidArgumentError("split() has an empty separator; name one, or none at all");
  }
  std::vector<std::string> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t end = FindText(text, separator);
    if (end == absl::string_view::npos) break;
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> SplitLines(absl::string_view text) {
  std::vector<std::string> lines;
  size_t end = 0;
  while (end < text.size()) {
    const CodePoint next = FirstCodePoint(text.substr(end));
    if (!EndsLine(next.value)) {
      end += next.bytes;
      continue;
    }
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + (absl::StartsWith(text.substr(end), "\r\n") ? 2 : next.bytes));
    end = 0;
  }
  if (!text.empty()) lines.emplace_back(text);
  return lines;
}

absl::StatusOr<std::string> Upper(absl::string_view text) {
  MUSTER_RETURN_IF_ERROR(CheckAscii(text));
  return absl::AsciiStrToUpper(text);
}

absl::StatusOr<std::string> Lower(absl::string_view text) {
  MUSTER_RETURN_IF_ERROR(CheckAscii(text));
  return absl::AsciiStrToLower(text);
}

absl::StatusOr<std::string> Capitalize(absl::string_view text) {
  return Title(text, [](char) { return false; });
}

absl::StatusOr<std::string> TitleMethod(absl::string_view text) {
  return Title(text, [](char before) { return !absl::ascii_isalpha(before); });
}

absl::StatusOr<std::string> TitleFilter(absl::string_view text) {
  return Title(text, [](char before) {
    return absl::StrContains("-({[<", before) || IsPythonSpace(static_cast<unsigned char>(before));
  });
}

size_t FindText(absl::string_view text, absl::string_view part) {
  const void* found = memmem(text.data(), text.size(), part.data(), part.size());
  if (found == nullptr) return part.empty() ? 0 : absl::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t CountOccurrences(absl::string_view text, absl::string_view part) {
  size_t count = 0;
  for (size_t at = FindText(text, part); at != absl::string_view::npos; at = FindText(text, part)) {
    text.remove_prefix(at + part.size());
    ++count;
  }
  return count;
}

std::string Replace(absl::string_view text, absl::string_view from, absl::string_view to,
                    int64_t most) {
  std::string replaced;
  int64_t done = 0;
  const auto more = [&] { return most < 0 || done < most; };
  if (from.empty()) {
    for (; more() && !text.empty(); ++done) {
      const size_t bytes = FirstCodePoint(text).bytes;
      absl::StrAppend(&replaced, to, text.substr(0, bytes));
      text.remove_prefix(bytes);
    }
    return absl::StrCat(replaced, more() ? to : "", text);
  }
  for (; more(); ++done) {
    const size_t at = FindText(text, from);
    if (at == absl::string_view::npos) break;
    absl::StrAppend(&replaced, text.substr(0, at), to);
    text.remove_prefix(at + from.size());
  }
  return absl::StrCat(replaced, text);
}

}  // namespace muster
