#include "common/text/utf8.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace muster {
namespace {

constexpr size_t kMostBytes = 4;

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Returns the bytes of the character that begins with this byte; 0: none does.
size_t LengthByLead(char byte) {
  const auto lead = static_cast<unsigned char>(byte);
  if (lead < 0x80) return 1;
  // 0xc0 and 0xc1 begin overlong forms only; 0xf5 and above begin code points past U+10FFFF.
  if (lead < 0xc2 || lead > 0xf4) return 0;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

}  // namespace

CodePoint FirstCodePoint(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t bytes = LengthByLead(text[0]);
  if (bytes == 1) return {byte(0), 1};
  if (bytes == 0 || text.size() < bytes) return {kInvalidCodePoint, 1};
  static constexpr uint32_t kLeadBits[] = {0, 0, 0x1f, 0xf, 0x7};
  static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  uint32_t value = byte(0) & kLeadBits[bytes];
  for (size_t i = 1; i < bytes; ++i) {
    if (!IsContinuation(text[i])) return {kInvalidCodePoint, 1};
    value = value << 6 | (byte(i) & 0x3f);
  }
  if (value < kLeast[bytes] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
    return {kInvalidCodePoint, 1};
  }
  return {value, bytes};
}

void AppendUtf8(uint32_t code_point, std::string& text) {
  const auto append = [&text](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto continuation = [&](int shift) { append(0x80 | (code_point >> shift & 0x3f)); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xc0 | code_point >> 6);
    continuation(0);
  } else if (code_point < 0x10000) {
    append(0xe0 | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    append(0xf0 | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const CodePoint first = FirstCodePoint(text);
    if (first.value == kInvalidCodePoint) return false;
    text.remove_prefix(first.bytes);
  }
  return true;
}

std::string ToUtf8(absl::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const CodePoint first = FirstCodePoint(text);
    if (first.value == kInvalidCodePoint) {
      absl::StrAppendFormat(&valid, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else {
      valid.append(text.data(), first.bytes);
    }
    text.remove_prefix(first.bytes);
  }
  return valid;
}

absl::string_view CutUtf8(absl::string_view text, size_t most) {
  if (text.size() <= most) return text;
  const absl::string_view cut = text.substr(0, most);
  return cut.substr(0, cut.size() - UnfinishedBytes(cut));
}

absl::string_view SkipToCharacter(absl::string_view text) {
  size_t skipped = 0;
  while (skipped < kMostBytes - 1 && skipped < text.size() && IsContinuation(text[skipped])) {
    ++skipped;
  }
  return text.substr(skipped);
}

size_t UnfinishedBytes(absl::string_view text) {
  for (size_t back = 1; back < kMostBytes && back <= text.size(); ++back) {
    const char byte = text[text.size() - back];
    if (IsContinuation(byte)) continue;
    return LengthByLead(byte) > back ? back : 0;
  }
  return 0;
}

}  // namespace muster
