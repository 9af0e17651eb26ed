#include "common/tokenizer/files/parse_tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/parse_json.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "common/tokenizer/unigram/unigram_json.h"
#include "common/tokenizer/unigram/unigram_tokenizer.h"
#include "common/tokenizer/words/json_fields.h"

namespace muster {
namespace {

template <typename AnyTokenizer, typename Vocabulary>
absl::StatusOr<std::unique_ptr<const Tokenizer>> Create(Vocabulary vocabulary,
                                                        const std::string& origin) {
  auto tokenizer = AnyTokenizer::Create(std::move(vocabulary));
  if (!tokenizer.ok()) {
    return absl::Status(tokenizer.status().code(),
                        absl::StrCat(origin, ": ", tokenizer.status().message()));
  }
  return std::unique_ptr<const Tokenizer>(*std::move(tokenizer));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> ParseTokenizer(absl::string_view json,
                                                                const std::string& origin) {
  if (json.empty()) return std::make_unique<const ByteTokenizer>();
  MUSTER_ASSIGN_OR_RETURN(const nlohmann::json parsed,
                          ParseJson(json, origin, "a file as `muster tokenizer train` writes it"));
  if (TypeOf(MemberOf(parsed, "model")) == "Unigram") {
    MUSTER_ASSIGN_OR_RETURN(UnigramVocabulary vocabulary, ReadUnigramJson(parsed, origin));
    return CreateTokenizer(std::move(vocabulary), origin);
  }
  MUSTER_ASSIGN_OR_RETURN(BpeVocabulary vocabulary, ReadBpeJson(parsed, origin));
  return CreateTokenizer(std::move(vocabulary), origin);
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> CreateTokenizer(BpeVocabulary vocabulary,
                                                                 const std::string& origin) {
  return Create<BpeTokenizer>(std::move(vocabulary), origin);
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> CreateTokenizer(UnigramVocabulary vocabulary,
                                                                 const std::string& origin) {
  return Create<UnigramTokenizer>(std::move(vocabulary), origin);
}

}  // namespace muster
