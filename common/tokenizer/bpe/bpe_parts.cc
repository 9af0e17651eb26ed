#include "common/tokenizer/bpe/bpe_parts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/length_of.h"
#include "common/tokenizer/bpe/byte_level.h"
#include "common/tokenizer/words/json_fields.h"

namespace muster {

using Json = nlohmann::json;

absl::StatusOr<WrittenIds> ParseWrittenTokens(const Json& vocab, const std::string& origin,
                                              int64_t id_limit, BpeVocabulary& vocabulary) {
  if (!vocab.is_object()) {
    return RefuseField(origin, "the vocabulary", vocab,
                       "expected an object of tokens and their ids");
  }
  absl::flat_hash_map<int32_t, std::string> added;
  for (const BpeVocabulary::AddedToken& each : vocabulary.added) added[each.id] = each.content;
  WrittenIds ids;
  for (const auto& item : vocab.items()) {
    MUSTER_ASSIGN_OR_RETURN(
        const int32_t id,
        ParseTokenId(item.value(), origin,
                     absl::StrCat("the id of a token of ", LengthOf(item.key())), id_limit));
    ids[item.key()] = id;
    // An added token stands there as it is.
    if (const auto same = added.find(id); same != added.end() && same->second == item.key()) {
      continue;
    }
    if (!vocabulary.byte_level) {
      MUSTER_RETURN_IF_ERROR(PlaceToken(id, item.key(), origin, vocabulary.tokens));
      continue;
    }
    std::optional<std::string> bytes = FromByteLevel(item.key());
    if (!bytes.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ": token ", id, ", ", LengthOf(item.key()),
                       ", is not written in GPT-2's byte characters; only byte-level vocabularies "
                       "are understood"));
    }
    MUSTER_RETURN_IF_ERROR(PlaceToken(id, *std::move(bytes), origin, vocabulary.tokens));
  }
  return ids;
}

absl::Status AddMerge(const WrittenIds& ids, absl::string_view left, absl::string_view right,
                      const std::string& place, BpeVocabulary& vocabulary) {
  const auto first = ids.find(left);
  const auto second = ids.find(right);
  if (first == ids.end() || second == ids.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        place, " joins two texts, of which the ", first == ids.end() ? "first, " : "second, ",
        LengthOf(first == ids.end() ? left : right), ", is no token of the vocabulary"));
  }
  vocabulary.merges.emplace_back(first->second, second->second);
  return absl::OkStatus();
}

}  // namespace muster
