#include "common/tokenizer/words/token_text.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"

namespace muster {

int ByteOfToken(absl::string_view token) {
  uint32_t byte = 0;
  if (token.size() != 6 || !absl::StartsWith(token, "<0x") || token[5] != '>' ||
      !absl::SimpleHexAtoi(token.substr(3, 2), &byte)) {
    return -1;
  }
  return static_cast<int>(byte);
}

std::string BytesOfText(absl::string_view token, const ReadTextRules& rules) {
  const int byte = rules.byte_tokens ? ByteOfToken(token) : -1;
  if (byte >= 0) return std::string(1, static_cast<char>(byte));
  if (rules.space.empty()) return std::string(token);
  return absl::StrReplaceAll(token, {{rules.space, " "}});
}

}  // namespace muster
