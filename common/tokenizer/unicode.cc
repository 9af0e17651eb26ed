#include "common/tokenizer/unicode.h"

#include <algorithm>
#include <array>

#include "common/tokenizer/unicode_ranges.h"

namespace muster {
namespace {

bool Contains(absl::Span<const CodePointRange> ranges, uint32_t code_point) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), code_point,
      [](uint32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges.begin() && code_point <= (after - 1)->last;
}

bool IsSpace(uint32_t c) {
  return (c >= 0x9 && c <= 0xd) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

CodePointClass Search(uint32_t code_point) {
  if (IsSpace(code_point)) return CodePointClass::kSpace;
  if (Contains(LetterRanges(), code_point)) return CodePointClass::kLetter;
  if (Contains(NumberRanges(), code_point)) return CodePointClass::kNumber;
  return CodePointClass::kOther;
}

// Most text is of these; the others are searched for.
constexpr uint32_t kCached = 0x800;

std::array<CodePointClass, kCached> SearchFirst() {
  std::array<CodePointClass, kCached> classes;
  for (uint32_t c = 0; c < kCached; ++c) classes[c] = Search(c);
  return classes;
}

}  // namespace

CodePointClass ClassOf(uint32_t code_point) {
  static const std::array<CodePointClass, kCached> first = SearchFirst();
  return code_point < kCached ? first[code_point] : Search(code_point);
}

CodePoint FirstCodePoint(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  size_t bytes = 0;
  uint32_t value = 0;
  uint32_t least = 0;
  if (lead >= 0xc0 && lead < 0xe0) {
    bytes = 2, value = lead & 0x1f, least = 0x80;
  } else if (lead >= 0xe0 && lead < 0xf0) {
    bytes = 3, value = lead & 0xf, least = 0x800;
  } else if (lead >= 0xf0 && lead < 0xf8) {
    bytes = 4, value = lead & 0x7, least = 0x10000;
  } else {
    return {kInvalidCodePoint, 1};
  }
  if (text.size() < bytes) return {kInvalidCodePoint, 1};
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {kInvalidCodePoint, 1};
    value = value << 6 | (byte(i) & 0x3f);
  }
  if (value < least || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
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

}  // namespace muster
