#include "common/tokenizer/unigram/unigram_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/dump_json.h"
#include "common/tokenizer/unigram/unigram_tokenizer.h"
#include "common/tokenizer/words/added_token_json.h"
#include "common/tokenizer/words/json_fields.h"

namespace muster {

using Json = nlohmann::json;

std::string WriteUnigramJson(const UnigramVocabulary& vocabulary) {
  Json vocab = Json::array();
  for (size_t id = 0; id < vocabulary.scores.size(); ++id) {
    vocab.push_back({vocabulary.tokens[id], vocabulary.scores[id]});
  }
  Json model = {{"type", "Unigram"},
                {"unk_id", nullptr},
                {"byte_fallback", vocabulary.byte_fallback},
                {"vocab", std::move(vocab)}};
  if (vocabulary.unknown.has_value()) model["unk_id"] = *vocabulary.unknown;
  Json json = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", WriteAddedTokens(vocabulary.added)},
               {"model", std::move(model)}};
  WriteTextRules(vocabulary.rules, json);
  return DumpJson(json, 1);
}

absl::StatusOr<UnigramVocabulary> ReadUnigramJson(const Json& json, const std::string& origin) {
  const Json& model = MemberOf(json, "model");
  const Json& vocab = MemberOf(model, "vocab");
  if (!vocab.is_array()) {
    return RefuseField(origin, "model.vocab", vocab, "expected a list of tokens and their scores");
  }
  UnigramVocabulary vocabulary;
  vocabulary.rules = TextRulesOf(json);
  // So that errors of rules name the file.
  MUSTER_RETURN_IF_ERROR(ParseTextRules(vocabulary.rules, origin).status());
  for (const Json& token : vocab) {
    if (!token.is_array() || token.size() != 2 || !token[0].is_string() || !token[1].is_number()) {
      return RefuseField(origin,
                         absl::StrCat("token ", vocabulary.tokens.size(), " of model.vocab"), token,
                         "expected a text and a number");
    }
    vocabulary.tokens.push_back(token[0].get<std::string>());
    vocabulary.scores.push_back(token[1].get<double>());
  }
  const Json& added = MemberOf(json, "added_tokens");
  const int64_t limit = TokenIdLimit(vocab, added);
  MUSTER_ASSIGN_OR_RETURN(vocabulary.added, ParseAddedTokens(added, origin, limit));
  MUSTER_RETURN_IF_ERROR(PlaceAdded(vocabulary.added, origin, vocabulary.tokens));
  MUSTER_ASSIGN_OR_RETURN(vocabulary.byte_fallback, ParseFlag(MemberOf(model, "byte_fallback"),
                                                              origin, "model.byte_fallback"));
  if (const Json& unknown = MemberOf(model, "unk_id"); !unknown.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(vocabulary.unknown,
                            ParseTokenId(unknown, origin, "model.unk_id", limit));
  }
  return vocabulary;
}

}  // namespace muster
