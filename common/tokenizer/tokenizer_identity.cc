#include "common/tokenizer/tokenizer_identity.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr char kName[] = "tokenizer_name";
constexpr char kFingerprint[] = "tokenizer_fingerprint";

std::string Hex(uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

}  // namespace

absl::Status CheckSameTokenizer(absl::string_view weights, const TokenizerIdentity& learned,
                                const TokenizerIdentity& given) {
  if (learned.fingerprint == given.fingerprint) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      weights, " learned from tokens of ", learned.name, " (tokenizer ", Hex(learned.fingerprint),
      "), but ", given.name, " has another tokenizer (", Hex(given.fingerprint),
      "), whose numbers stand for other text; take the first one, or data that were encoded by "
      "it"));
}

void AddToMetadata(const TokenizerIdentity& tokenizer,
                   std::map<std::string, std::string>& metadata) {
  metadata[kName] = tokenizer.name;
  metadata[kFingerprint] = Hex(tokenizer.fingerprint);
}

std::optional<TokenizerIdentity> TokenizerOfMetadata(
    const std::map<std::string, std::string>& metadata) {
  const auto name = metadata.find(kName);
  const auto fingerprint = metadata.find(kFingerprint);
  TokenizerIdentity tokenizer;
  if (name == metadata.end() || fingerprint == metadata.end() ||
      !absl::SimpleHexAtoi(fingerprint->second, &tokenizer.fingerprint)) {
    return std::nullopt;
  }
  tokenizer.name = name->second;
  return tokenizer;
}

}  // namespace muster
