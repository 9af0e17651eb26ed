#include "common/tokenizer/bpe/bpe_parts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/length_of.h"
#include "common/tokenizer/bpe/byte_level.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// Far above any vocabulary there is. Ids index a table, so a wrong one must not make it one of
// gigabytes: files leave out few ids, for tokens that they do not have.
constexpr int64_t kMostTokens = 1 << 24;
constexpr int64_t kMostUnusedIds = 1 << 16;

// Names by which an error may call what it found: they say nothing that only the file knows. Names
// of an end of text are such, too.
constexpr absl::string_view kKnownNames[] = {
    // Types in a tokenizer.json.
    "BPE", "BertNormalizer", "BertPreTokenizer", "BertProcessing", "ByteFallback", "ByteLevel",
    "Digits", "Fuse", "Lowercase", "Metaspace", "NFC", "NFD", "NFKC", "NFKD", "Precompiled",
    "Prepend", "Punctuation", "Replace", "RobertaProcessing", "Sequence", "Split", "Strip",
    "StripAccents", "TemplateProcessing", "Unigram", "UnicodeScripts", "Whitespace",
    "WhitespaceSplit", "WordLevel", "WordPiece",
    // Classes in a tokenizer_config.json.
    "BartTokenizer", "BartTokenizerFast", "BertTokenizer", "BertTokenizerFast",
    "BloomTokenizerFast", "CLIPTokenizer", "CLIPTokenizerFast", "CodeGenTokenizer",
    "CodeGenTokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast", "GemmaTokenizer",
    "GemmaTokenizerFast", "GPTNeoXTokenizer", "GPTNeoXTokenizerFast", "LlamaTokenizer",
    "LlamaTokenizerFast", "OpenAIGPTTokenizer", "OpenAIGPTTokenizerFast", "PreTrainedTokenizer",
    "PreTrainedTokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast", "RobertaTokenizer",
    "RobertaTokenizerFast", "T5Tokenizer", "T5TokenizerFast", "WhisperTokenizer",
    "WhisperTokenizerFast"};

bool IsKnownName(const Json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return absl::c_linear_search(kKnownNames, text) || absl::c_linear_search(EndOfTextNames(), text);
}

// What a value is, as an error says it.
std::string Kind(const Json& value) {
  if (IsKnownName(value)) return value.get<std::string>();
  if (value.is_string()) {
    return absl::StrCat("a text of ", LengthOf(value.get_ref<const std::string&>()));
  }
  if (value.is_object()) {
    const Json& type = MemberOf(value, "type");
    if (IsKnownName(type)) {
      return absl::StrCat("an object of type ", type.get_ref<const std::string&>());
    }
    return absl::StrCat("an object of ", value.size(), value.size() == 1 ? " member" : " members");
  }
  if (value.is_array()) return absl::StrCat("a list of ", value.size());
  if (value.is_number_float()) return "a number with a fraction";
  if (value.is_number_unsigned()) return absl::StrCat("a number of ", LengthOf(value.dump()));
  if (value.is_number()) return "a negative number";
  return value.is_null() ? "missing or null" : value.get<bool>() ? "true" : "false";
}

absl::StatusOr<int32_t> ParseId(const Json& value, const std::string& origin,
                                absl::string_view field, int64_t limit) {
  if (!value.is_number_integer() || value < Json(0) || value >= Json(limit)) {
    return RefuseField(origin, field, value,
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

}  // namespace

absl::Status RefuseField(const std::string& origin, absl::string_view field, const Json& value,
                         absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(origin, ": ", field, " is ", Kind(value), "; ", expected));
}

const Json& MemberOf(const Json& object, const std::string& name) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

bool IsOff(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

int64_t TokenIdLimit(const Json& vocab, const Json& added) {
  const auto entries = static_cast<int64_t>(vocab.size() + added.size());
  return std::min(kMostTokens, entries + kMostUnusedIds);
}

absl::Status ParseAddedTokens(const Json& added, const std::string& origin, int64_t id_limit,
                              BpeVocabulary& vocabulary) {
  if (added.is_null()) return absl::OkStatus();
  if (!added.is_array()) return RefuseField(origin, "added_tokens", added, "expected a list");
  for (const Json& each : added) {
    const Json& content = MemberOf(each, "content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      return RefuseField(origin, "an added token's content", content, "expected a text");
    }
    MUSTER_ASSIGN_OR_RETURN(const int32_t id,
                            ParseId(MemberOf(each, "id"), origin,
                                    absl::StrCat("the id of an added token of ",
                                                 LengthOf(content.get_ref<const std::string&>())),
                                    id_limit));
    for (const char* option : {"single_word", "lstrip", "rstrip"}) {
      if (!IsOff(MemberOf(each, option))) {
        return RefuseField(origin, absl::StrCat(option, " of added token ", id),
                           MemberOf(each, option), "only false is understood");
      }
    }
    // Where a file does not say, it is the usual: a special one.
    const Json& special = MemberOf(each, "special");
    vocabulary.added.push_back({id, content.get<std::string>(),
                                special.is_null() || !IsOff(special),
                                !IsOff(MemberOf(each, "normalized"))});
    MUSTER_RETURN_IF_ERROR(Place(id, content.get<std::string>(), origin, vocabulary));
  }
  return absl::OkStatus();
}

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
        ParseId(item.value(), origin, absl::StrCat("the id of a token of ", LengthOf(item.key())),
                id_limit));
    ids[item.key()] = id;
    // An added token stands there as it is.
    if (const auto same = added.find(id); same != added.end() && same->second == item.key()) {
      continue;
    }
    std::optional<std::string> bytes = FromByteLevel(item.key());
    if (!bytes.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ": token ", id, ", ", LengthOf(item.key()),
                       ", is not written in GPT-2's byte characters; only byte-level vocabularies "
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
    return absl::InvalidArgumentError(absl::StrCat(
        place, " joins two texts, of which the ", first == ids.end() ? "first, " : "second, ",
        LengthOf(first == ids.end() ? left : right), ", is no token of the vocabulary"));
  }
  vocabulary.merges.emplace_back(first->second, second->second);
  return absl::OkStatus();
}

}  // namespace muster
