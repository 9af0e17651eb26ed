#include "common/tokenizer/bpe_json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/files/parse_json.h"
#include "common/text/dump_json.h"
#include "common/text/utf8.h"
#include "common/tokenizer/bpe_tokenizer.h"
#include "common/tokenizer/byte_level.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// Far above any vocabulary there is. Ids index a table, so a wrong one must not make it one of
// gigabytes: files leave out few ids, for tokens that they do not have.
constexpr int64_t kMostTokens = 1 << 24;
constexpr int64_t kMostUnusedIds = 1 << 16;

// Bytes of a value as an error shows it.
constexpr size_t kMostShown = 80;

std::string Dump(const Json& value) {
  const std::string text = DumpJson(value);
  const absl::string_view shown = CutUtf8(text, kMostShown);
  return absl::StrCat(shown, shown.size() < text.size() ? "…" : "");
}

absl::Status Refuse(const std::string& origin, absl::string_view field, const Json& value,
                    absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(origin, ": ", field, " is ", Dump(value), "; ", expected));
}

// The member, null where there is none.
const Json& Member(const Json& object, const char* name) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

// Null, false and "" all mean that an option is off.
bool IsOff(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

std::string TypeOf(const Json& value) {
  const Json& type = Member(value, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

// What surrounds the vocabulary must neither change the text nor cut it in another way.
absl::Status CheckSurroundings(const Json& json, const std::string& origin) {
  const Json& normalizer = Member(json, "normalizer");
  if (!normalizer.is_null()) {
    return Refuse(
        origin, "normalizer", normalizer,
        "only tokenizers without one are understood, as decoding must give the very bytes "
        "that were encoded");
  }
  const Json& pre_tokenizer = Member(json, "pre_tokenizer");
  if (TypeOf(pre_tokenizer) != "ByteLevel") {
    return Refuse(origin, "pre_tokenizer", pre_tokenizer,
                  "only ByteLevel, the rule of GPT-2, is understood");
  }
  if (!IsOff(Member(pre_tokenizer, "add_prefix_space"))) {
    return Refuse(origin, "pre_tokenizer.add_prefix_space",
                  Member(pre_tokenizer, "add_prefix_space"), "only false is understood");
  }
  const Json& use_regex = Member(pre_tokenizer, "use_regex");
  if (!use_regex.is_null() && use_regex != Json(true)) {
    return Refuse(origin, "pre_tokenizer.use_regex", use_regex, "only true is understood");
  }
  const Json& decoder = Member(json, "decoder");
  if (!decoder.is_null() && TypeOf(decoder) != "ByteLevel") {
    return Refuse(origin, "decoder", decoder, "only ByteLevel is understood");
  }
  const Json& post_processor = Member(json, "post_processor");
  if (!post_processor.is_null() && TypeOf(post_processor) != "ByteLevel") {
    return Refuse(origin, "post_processor", post_processor,
                  "only ByteLevel, which adds no tokens, is understood");
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const Json& model, const std::string& origin) {
  if (TypeOf(model) != "BPE") {
    return Refuse(origin, "model.type", Member(model, "type"),
                  "only BPE (byte-level byte-pair encoding) is understood");
  }
  for (const char* option : {"dropout", "unk_token", "continuing_subword_prefix",
                             "end_of_word_suffix", "byte_fallback", "ignore_merges"}) {
    if (!IsOff(Member(model, option))) {
      // GPT-2's own file names its end-of-text here; with a token for every byte nothing is
      // unknown.
      if (absl::string_view(option) == "unk_token") continue;
      return Refuse(origin, absl::StrCat("model.", option), Member(model, option),
                    "only tokenizers without it are understood");
    }
  }
  return absl::OkStatus();
}

// The first id that is too large for a file with so many entries that name one.
int64_t IdLimit(const Json& vocab, const Json& added) {
  const auto entries = static_cast<int64_t>(vocab.size() + added.size());
  return std::min(kMostTokens, entries + kMostUnusedIds);
}

absl::StatusOr<int32_t> ParseId(const Json& value, const std::string& origin,
                                absl::string_view field, int64_t limit) {
  if (!value.is_number_integer() || value < Json(0) || value >= Json(limit)) {
    return Refuse(origin, field, value,
                  absl::StrCat("expected a whole number from 0 to ", limit - 1,
                               ", the largest that a file of so many tokens may use"));
  }
  return value.get<int32_t>();
}

// Puts a token in its place; a second one for the same id must be the same.
absl::Status Place(int32_t id, std::string bytes, const std::string& origin,
                   BpeVocabulary& vocabulary) {
  std::vector<std::string>& tokens = vocabulary.tokens;
  if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(id + 1);
  if (!tokens[id].empty() && tokens[id] != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": two tokens have the id ", id, ", expected one"));
  }
  tokens[id] = std::move(bytes);
  return absl::OkStatus();
}

absl::Status ParseAdded(const Json& added, const std::string& origin, int64_t limit,
                        BpeVocabulary& vocabulary) {
  if (added.is_null()) return absl::OkStatus();
  if (!added.is_array()) return Refuse(origin, "added_tokens", added, "expected a list");
  for (const Json& each : added) {
    MUSTER_ASSIGN_OR_RETURN(const int32_t id,
                            ParseId(Member(each, "id"), origin, "an added token's id", limit));
    const Json& content = Member(each, "content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      return Refuse(origin, "an added token's content", content, "expected a text");
    }
    for (const char* option : {"single_word", "lstrip", "rstrip"}) {
      if (!IsOff(Member(each, option))) {
        return Refuse(origin, absl::StrCat("added token ", Dump(content), "'s ", option),
                      Member(each, option), "only false is understood");
      }
    }
    vocabulary.added.push_back({id, content.get<std::string>()});
    MUSTER_RETURN_IF_ERROR(Place(id, content.get<std::string>(), origin, vocabulary));
  }
  return absl::OkStatus();
}

// Ids of tokens as the file writes them.
using WrittenIds = absl::flat_hash_map<std::string, int32_t>;

absl::StatusOr<WrittenIds> ParseVocab(const Json& vocab, const std::string& origin, int64_t limit,
                                      BpeVocabulary& vocabulary) {
  if (!vocab.is_object()) {
    return Refuse(origin, "the vocabulary", vocab, "expected an object of tokens and their ids");
  }
  absl::flat_hash_map<int32_t, std::string> added;
  for (const BpeVocabulary::AddedToken& each : vocabulary.added) added[each.id] = each.content;
  WrittenIds ids;
  for (const auto& item : vocab.items()) {
    MUSTER_ASSIGN_OR_RETURN(
        const int32_t id, ParseId(item.value(), origin,
                                  absl::StrCat("the id of token ", Dump(Json(item.key()))), limit));
    ids[item.key()] = id;
    // An added token stands there as it is.
    if (const auto same = added.find(id); same != added.end() && same->second == item.key()) {
      continue;
    }
    std::optional<std::string> bytes = FromByteLevel(item.key());
    if (!bytes.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ": token ", Dump(Json(item.key())),
                       " is not written in GPT-2's byte characters; only byte-level vocabularies "
                       "are understood"));
    }
    MUSTER_RETURN_IF_ERROR(Place(id, *std::move(bytes), origin, vocabulary));
  }
  return ids;
}

absl::Status AddMerge(const WrittenIds& ids, absl::string_view left, absl::string_view right,
                      const std::string& place, BpeVocabulary& vocabulary) {
  const auto first = ids.find(left);
  const auto second = ids.find(right);
  if (first == ids.end() || second == ids.end()) {
    return absl::InvalidArgumentError(absl::StrCat(place, " joins '", left, "' and '", right,
                                                   "'; '", first == ids.end() ? left : right,
                                                   "' is no token of the vocabulary"));
  }
  vocabulary.merges.emplace_back(first->second, second->second);
  return absl::OkStatus();
}

absl::Status ParseMerges(const Json& merges, const std::string& origin, const WrittenIds& ids,
                         BpeVocabulary& vocabulary) {
  if (!merges.is_array()) return Refuse(origin, "model.merges", merges, "expected a list");
  for (const Json& merge : merges) {
    const std::string place =
        absl::StrCat(origin, ": merge ", vocabulary.merges.size(), " of model.merges");
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      MUSTER_RETURN_IF_ERROR(AddMerge(ids, merge[0].get_ref<const std::string&>(),
                                      merge[1].get_ref<const std::string&>(), place, vocabulary));
      continue;
    }
    std::vector<absl::string_view> pair;
    if (merge.is_string()) pair = absl::StrSplit(merge.get_ref<const std::string&>(), ' ');
    if (pair.size() != 2) return Refuse(origin, "a merge", merge, "expected two tokens");
    MUSTER_RETURN_IF_ERROR(AddMerge(ids, pair[0], pair[1], place, vocabulary));
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> Parse(absl::string_view text, const std::string& origin) {
  return ParseJson(text, origin, "a file as `muster tokenizer train` writes it");
}

}  // namespace

std::string WriteBpeJson(const BpeVocabulary& vocabulary) {
  Json added = Json::array();
  for (const BpeVocabulary::AddedToken& token : vocabulary.added) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  Json merges = Json::array();
  absl::flat_hash_set<std::string> merged;
  for (const std::pair<int32_t, int32_t>& merge : vocabulary.merges) {
    std::string left = ToByteLevel(vocabulary.tokens[merge.first]);
    std::string right = ToByteLevel(vocabulary.tokens[merge.second]);
    merges.push_back(absl::StrCat(left, " ", right));
    merged.insert(left + right);
    merged.insert(std::move(left));
    merged.insert(std::move(right));
  }
  absl::flat_hash_set<int32_t> as_they_are;
  Json vocab = Json::object();
  // Readers look up an added token by its content, and give it another id if that is not there.
  for (const BpeVocabulary::AddedToken& token : vocabulary.added) {
    as_they_are.insert(token.id);
    vocab[token.content] = token.id;
  }
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& bytes = vocabulary.tokens[id];
    if (bytes.empty()) continue;
    std::string written = ToByteLevel(bytes);
    // What stands for a byte, or is part of a merge, is looked up by its bytes too.
    if (as_they_are.contains(static_cast<int32_t>(id)) && bytes.size() > 1 &&
        !merged.contains(written)) {
      continue;
    }
    vocab[std::move(written)] = id;
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"vocab", std::move(vocab)},
                      {"merges", std::move(merges)}};
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", std::move(added)},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model", model}};
  return DumpJson(json, 1);
}

absl::StatusOr<BpeVocabulary> ParseBpeJson(absl::string_view text, const std::string& origin) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, Parse(text, origin));
  const Json& model = Member(json, "model");
  if (!model.is_object()) {
    return Refuse(origin, "model", model,
                  "expected a tokenizer.json, as `muster tokenizer train` writes it");
  }
  MUSTER_RETURN_IF_ERROR(CheckModel(model, origin));
  MUSTER_RETURN_IF_ERROR(CheckSurroundings(json, origin));
  BpeVocabulary vocabulary;
  const Json& added = Member(json, "added_tokens");
  const Json& vocab = Member(model, "vocab");
  const int64_t limit = IdLimit(vocab, added);
  MUSTER_RETURN_IF_ERROR(ParseAdded(added, origin, limit, vocabulary));
  MUSTER_ASSIGN_OR_RETURN(const WrittenIds ids, ParseVocab(vocab, origin, limit, vocabulary));
  MUSTER_RETURN_IF_ERROR(ParseMerges(Member(model, "merges"), origin, ids, vocabulary));
  return vocabulary;
}

absl::StatusOr<BpeVocabulary> ParseGpt2Files(absl::string_view vocab, absl::string_view merges,
                                             const std::string& folder) {
  const std::string origin = absl::StrCat(folder, "/vocab.json");
  MUSTER_ASSIGN_OR_RETURN(const Json json, Parse(vocab, origin));
  BpeVocabulary vocabulary;
  const int64_t limit = IdLimit(json, Json());
  constexpr char kEndOfText[] = "<|endoftext|>";
  if (const Json& id = Member(json, kEndOfText); !id.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(const int32_t end, ParseId(id, origin, kEndOfText, limit));
    vocabulary.added.push_back({end, kEndOfText});
    MUSTER_RETURN_IF_ERROR(Place(end, kEndOfText, origin, vocabulary));
  }
  MUSTER_ASSIGN_OR_RETURN(const WrittenIds ids, ParseVocab(json, origin, limit, vocabulary));
  int64_t line = 0;
  for (absl::string_view text : absl::StrSplit(merges, '\n')) {
    ++line;
    text = absl::StripSuffix(text, "\r");
    if (text.empty() || (line == 1 && absl::StartsWith(text, "#version"))) continue;
    const std::string place = absl::StrCat(folder, "/merges.txt:", line);
    const std::vector<absl::string_view> pair = absl::StrSplit(text, ' ');
    if (pair.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": '", text, "' is no merge; expected two tokens and a space"));
    }
    MUSTER_RETURN_IF_ERROR(AddMerge(ids, pair[0], pair[1], place + ":", vocabulary));
  }
  return vocabulary;
}

}  // namespace muster
