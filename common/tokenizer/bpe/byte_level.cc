#include "common/tokenizer/bpe/byte_level.h"

#include <algorithm>

#include "common/text/utf8.h"

namespace muster {
namespace {

constexpr uint32_t kFirstOther = 0x100;

bool IsWrittenAsItself(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet {
  Alphabet() {
    uint32_t other = kFirstOther;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      code_points[byte] = IsWrittenAsItself(byte) ? byte : other++;
      order[byte] = static_cast<uint8_t>(byte);
    }
    std::sort(order.begin(), order.end(),
              [this](uint8_t a, uint8_t b) { return code_points[a] < code_points[b]; });
  }

  std::array<uint32_t, 256> code_points;
  std::array<uint8_t, 256> order;
};

const Alphabet& GetAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

const std::array<uint8_t, 256>& ByteLevelOrder() { return GetAlphabet().order; }

std::string ToByteLevel(absl::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    AppendUtf8(GetAlphabet().code_points[static_cast<unsigned char>(byte)], text);
  }
  return text;
}

std::optional<std::string> FromByteLevel(absl::string_view text) {
  const Alphabet& alphabet = GetAlphabet();
  std::string bytes;
  while (!text.empty()) {
    const CodePoint next = FirstCodePoint(text);
    const auto found = std::lower_bound(
        alphabet.order.begin(), alphabet.order.end(), next.value,
        [&alphabet](uint8_t byte, uint32_t value) { return alphabet.code_points[byte] < value; });
    if (found == alphabet.order.end() || alphabet.code_points[*found] != next.value) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(*found));
    text.remove_prefix(next.bytes);
  }
  return bytes;
}

}  // namespace muster
