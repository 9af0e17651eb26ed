#include "common/tokenizer/bpe/bpe_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/files/parse_json.h"
#include "common/text/dump_json.h"
#include "common/tokenizer/bpe/bpe_parts.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/byte_level.h"
#include "common/tokenizer/words/json_fields.h"
#include "common/tokenizer/words/text_rules.h"

namespace muster {
namespace {

using Json = nlohmann::json;

absl::Status CheckModel(const Json& model, const std::string& origin) {
  if (TypeOf(model) != "BPE") {
    return RefuseField(origin, "model.type", MemberOf(model, "type"),
                       "only BPE (byte-pair encoding) and Unigram are understood");
  }
  for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    if (IsOff(MemberOf(model, option))) continue;
    return RefuseField(origin, absl::StrCat("model.", option), MemberOf(model, option),
                       "only tokenizers without it are understood");
  }
  return absl::OkStatus();
}

// Reads how characters are encoded that are no token.
absl::Status ParseUnknown(const Json& model, const std::string& origin, const WrittenIds& ids,
                          BpeVocabulary& vocabulary) {
  const Json& unknown = MemberOf(model, "unk_token");
  if (IsOff(unknown)) return absl::OkStatus();
  const auto found =
      unknown.is_string() ? ids.find(unknown.get_ref<const std::string&>()) : ids.end();
  if (found == ids.end()) {
    return RefuseField(origin, "model.unk_token", unknown, "expected a token of the vocabulary");
  }
  vocabulary.unknown = found->second;
  return absl::OkStatus();
}

absl::Status ParseMerges(const Json& merges, const std::string& origin, const WrittenIds& ids,
                         BpeVocabulary& vocabulary) {
  if (!merges.is_array()) return RefuseField(origin, "model.merges", merges, "expected a list");
  for (const Json& merge : merges) {
    const std::string field = absl::StrCat("merge ", vocabulary.merges.size(), " of model.merges");
    const std::string place = absl::StrCat(origin, ": ", field);
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      MUSTER_RETURN_IF_ERROR(AddMerge(ids, merge[0].get_ref<const std::string&>(),
                                      merge[1].get_ref<const std::string&>(), place, vocabulary));
      continue;
    }
    std::vector<absl::string_view> pair;
    if (merge.is_string()) pair = absl::StrSplit(merge.get_ref<const std::string&>(), ' ');
    if (pair.size() != 2) return RefuseField(origin, field, merge, "expected two tokens");
    MUSTER_RETURN_IF_ERROR(AddMerge(ids, pair[0], pair[1], place, vocabulary));
  }
  return absl::OkStatus();
}

// Returns the tokens with their ids, as a byte-level vocabulary writes them.
Json WriteByteTokens(const BpeVocabulary& vocabulary) {
  absl::flat_hash_set<std::string> merged;
  for (const auto& [left, right] : vocabulary.merges) {
    std::string first = ToByteLevel(vocabulary.tokens[left]);
    std::string second = ToByteLevel(vocabulary.tokens[right]);
    merged.insert(first + second);
    merged.insert(std::move(first));
    merged.insert(std::move(second));
  }
  const absl::flat_hash_set<int32_t> as_they_are = AddedIds(vocabulary);
  absl::flat_hash_set<absl::string_view> of_words;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!as_they_are.contains(static_cast<int32_t>(id))) of_words.insert(vocabulary.tokens[id]);
  }
  Json vocab = Json::object();
  // Readers look up an added token by its content, and give it another id if that is not there.
  for (const AddedToken& token : vocabulary.added) vocab[token.content] = token.id;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& bytes = vocabulary.tokens[id];
    if (bytes.empty()) continue;
    std::string written = ToByteLevel(bytes);
    // What stands for a byte, or is part of a merge, is looked up by its bytes too, unless a token
    // of words has these.
    if (as_they_are.contains(static_cast<int32_t>(id)) &&
        (of_words.contains(bytes) || (bytes.size() > 1 && !merged.contains(written)))) {
      continue;
    }
    vocab[std::move(written)] = id;
  }
  return vocab;
}

Json WriteCharacterTokens(const BpeVocabulary& vocabulary) {
  Json vocab = Json::object();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!vocabulary.tokens[id].empty()) vocab[vocabulary.tokens[id]] = id;
  }
  return vocab;
}

Json WriteMerges(const BpeVocabulary& vocabulary) {
  Json merges = Json::array();
  for (const auto& [left, right] : vocabulary.merges) {
    const std::string& first = vocabulary.tokens[left];
    const std::string& second = vocabulary.tokens[right];
    if (vocabulary.byte_level) {
      merges.push_back(absl::StrCat(ToByteLevel(first), " ", ToByteLevel(second)));
    } else {
      // Tokens of characters may have a space.
      merges.push_back({first, second});
    }
  }
  return merges;
}

}  // namespace

std::string WriteBpeJson(const BpeVocabulary& vocabulary) {
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", vocabulary.fuses_unknown},
                {"byte_fallback", vocabulary.byte_fallback},
                {"vocab", vocabulary.byte_level ? WriteByteTokens(vocabulary)
                                                : WriteCharacterTokens(vocabulary)},
                {"merges", WriteMerges(vocabulary)}};
  if (vocabulary.unknown.has_value()) model["unk_token"] = vocabulary.tokens[*vocabulary.unknown];
  if (vocabulary.ignores_merges) model["ignore_merges"] = true;
  Json json = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", WriteAddedTokens(vocabulary.added)},
               {"model", std::move(model)}};
  WriteTextRules(vocabulary.rules, json);
  return DumpJson(json, 1);
}

absl::StatusOr<BpeVocabulary> ParseBpeJson(absl::string_view text, const std::string& origin) {
  MUSTER_ASSIGN_OR_RETURN(const Json json,
                          ParseJson(text, origin, "a file as `muster tokenizer train` writes it"));
  return ReadBpeJson(json, origin);
}

absl::StatusOr<BpeVocabulary> ReadBpeJson(const Json& json, const std::string& origin) {
  const Json& model = MemberOf(json, "model");
  if (!model.is_object()) {
    return RefuseField(origin, "model", model,
                       "expected a tokenizer.json, as `muster tokenizer train` writes it");
  }
  MUSTER_RETURN_IF_ERROR(CheckModel(model, origin));
  BpeVocabulary vocabulary;
  vocabulary.rules = TextRulesOf(json);
  MUSTER_ASSIGN_OR_RETURN(const ReadTextRules rules, ParseTextRules(vocabulary.rules, origin));
  vocabulary.byte_level = rules.byte_level;
  const Json& added = MemberOf(json, "added_tokens");
  const Json& vocab = MemberOf(model, "vocab");
  const int64_t limit = TokenIdLimit(vocab, added);
  MUSTER_ASSIGN_OR_RETURN(vocabulary.added, ParseAddedTokens(added, origin, limit));
  MUSTER_RETURN_IF_ERROR(PlaceAdded(vocabulary.added, origin, vocabulary.tokens));
  MUSTER_ASSIGN_OR_RETURN(const WrittenIds ids,
                          ParseWrittenTokens(vocab, origin, limit, vocabulary));
  MUSTER_RETURN_IF_ERROR(ParseMerges(MemberOf(model, "merges"), origin, ids, vocabulary));
  const auto flag = [&](const char* option) {
    return ParseFlag(MemberOf(model, option), origin, absl::StrCat("model.", option));
  };
  MUSTER_ASSIGN_OR_RETURN(vocabulary.ignores_merges, flag("ignore_merges"));
  MUSTER_ASSIGN_OR_RETURN(vocabulary.byte_fallback, flag("byte_fallback"));
  MUSTER_ASSIGN_OR_RETURN(vocabulary.fuses_unknown, flag("fuse_unk"));
  // With a token for every byte nothing is unknown; GPT-2's own file names its end-of-text there.
  if (vocabulary.byte_level) {
    vocabulary.byte_fallback = vocabulary.fuses_unknown = false;
  } else {
    MUSTER_RETURN_IF_ERROR(ParseUnknown(model, origin, ids, vocabulary));
  }
  return vocabulary;
}

}  // namespace muster
