#include "common/tokenizer/words/added_token_json.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/length_of.h"
#include "common/tokenizer/words/json_fields.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// Far above any vocabulary there is. Ids index a table, so a wrong one must not make it one of
// gigabytes: files leave out few ids, for tokens that they do not have.
constexpr int64_t kMostTokens = 1 << 24;
constexpr int64_t kMostUnusedIds = 1 << 16;

}  // namespace

int64_t TokenIdLimit(const Json& vocab, const Json& added) {
  const auto entries = static_cast<int64_t>(vocab.size() + added.size());
  return std::min(kMostTokens, entries + kMostUnusedIds);
}

absl::StatusOr<int32_t> ParseTokenId(const Json& value, const std::string& origin,
                                     absl::string_view field, int64_t limit) {
  if (!value.is_number_integer() || value < Json(0) || value >= Json(limit)) {
    return RefuseField(origin, field, value,
                       absl::StrCat("expected a whole number from 0 to ", limit - 1,
                                    ", the largest that a file of so many tokens may use"));
  }
  return value.get<int32_t>();
}

absl::Status PlaceToken(int32_t id, std::string text, const std::string& origin,
                        std::vector<std::string>& tokens) {
  if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(id + 1);
  if (!tokens[id].empty() && tokens[id] != text) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": two tokens have the id ", id, ", expected one"));
  }
  tokens[id] = std::move(text);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const Json& added,
                                                         const std::string& origin,
                                                         int64_t id_limit) {
  std::vector<AddedToken> tokens;
  if (added.is_null()) return tokens;
  if (!added.is_array()) return RefuseField(origin, "added_tokens", added, "expected a list");
  for (const Json& each : added) {
    const Json& content = MemberOf(each, "content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      return RefuseField(origin, "an added token's content", content, "expected a text");
    }
    AddedToken& token = tokens.emplace_back();
    token.content = content.get<std::string>();
    MUSTER_ASSIGN_OR_RETURN(token.id, ParseTokenId(MemberOf(each, "id"), origin,
                                                   absl::StrCat("the id of an added token of ",
                                                                LengthOf(token.content)),
                                                   id_limit));
    const auto flag = [&](const char* option) {
      return ParseFlag(MemberOf(each, option), origin,
                       absl::StrCat(option, " of added token ", token.id));
    };
    MUSTER_ASSIGN_OR_RETURN(const bool single_word, flag("single_word"));
    if (single_word) {
      return RefuseField(origin, absl::StrCat("single_word of added token ", token.id),
                         MemberOf(each, "single_word"), "only false is understood");
    }
    // A token is special if the file does not say.
    const Json& special = MemberOf(each, "special");
    token.special = special.is_null() || !IsOff(special);
    MUSTER_ASSIGN_OR_RETURN(token.normalized, flag("normalized"));
    MUSTER_ASSIGN_OR_RETURN(token.takes_left, flag("lstrip"));
    MUSTER_ASSIGN_OR_RETURN(token.takes_right, flag("rstrip"));
  }
  return tokens;
}

Json WriteAddedTokens(const std::vector<AddedToken>& added) {
  Json list = Json::array();
  for (const AddedToken& token : added) {
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", false},
                    {"lstrip", token.takes_left},
                    {"rstrip", token.takes_right},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

absl::Status PlaceAdded(const std::vector<AddedToken>& added, const std::string& origin,
                        std::vector<std::string>& tokens) {
  for (const AddedToken& token : added) {
    MUSTER_RETURN_IF_ERROR(PlaceToken(token.id, token.content, origin, tokens));
  }
  return absl::OkStatus();
}

std::optional<int32_t> FindEndOfText(const std::vector<AddedToken>& added) {
  for (const char* name : EndOfTextNames()) {
    for (const AddedToken& token : added) {
      if (token.content == name) return token.id;
    }
  }
  return std::nullopt;
}

}  // namespace muster
