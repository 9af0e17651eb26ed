#include "common/chat_template/syntax/string_literal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

constexpr absl::string_view kLetters = "\\'\"abfnrtv";
constexpr absl::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";

bool IsOctal(char digit) { return digit >= '0' && digit <= '7'; }

absl::Status AppendCodePoint(uint32_t value, std::string& out) {
  if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
    return absl::InvalidArgumentError(
        "an escape in the string is no character; write the character itself");
  }
  AppendUtf8(value, out);
  return absl::OkStatus();
}

// Takes the digits of \x, \u and \U.
absl::Status TakeHex(absl::string_view& text, size_t digits, std::string& out) {
  const absl::string_view hex = text.substr(0, digits);
  uint32_t value = 0;
  if (hex.size() < digits || !std::all_of(hex.begin(), hex.end(), absl::ascii_isxdigit) ||
      !absl::SimpleHexAtoi(hex, &value)) {
    return absl::InvalidArgumentError(absl::StrCat("an escape in the string lacks some of its ",
                                                   digits, " hexadecimal digits; add them"));
  }
  text.remove_prefix(digits);
  return AppendCodePoint(value, out);
}

absl::Status TakeOctal(absl::string_view& text, std::string& out) {
  uint32_t value = 0;
  for (int i = 0; i < 3 && !text.empty() && IsOctal(text[0]); ++i) {
    value = value * 8 + static_cast<uint32_t>(text[0] - '0');
    text.remove_prefix(1);
  }
  return AppendCodePoint(value, out);
}

}  // namespace

absl::StatusOr<std::string> Unescape(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const char first = text[0];
    if (first != '\\' || text.size() == 1) {
      out.push_back(first);
      text.remove_prefix(1);
      continue;
    }
    const char letter = text[1];
    if (IsOctal(letter)) {
      text.remove_prefix(1);
      MUSTER_RETURN_IF_ERROR(TakeOctal(text, out));
      continue;
    }
    text.remove_prefix(2);
    const size_t simple = kLetters.find(letter);
    if (letter == '\n') continue;
    if (simple != absl::string_view::npos) {
      out.push_back(kMeanings[simple]);
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      MUSTER_RETURN_IF_ERROR(TakeHex(text, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, out));
    } else if (letter == 'N' || !absl::ascii_isascii(static_cast<unsigned char>(letter))) {
      return absl::InvalidArgumentError(
          "the string has an escape that is not in the subset; write the character itself");
    } else {
      out.push_back('\\');
      out.push_back(letter);
    }
  }
  return out;
}

}  // namespace muster
