#include "common/tokenizer/bpe/unicode.h"

#include <algorithm>
#include <array>

#include "common/tokenizer/bpe/unicode_ranges.h"

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

}  // namespace muster
