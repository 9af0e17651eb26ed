#include "common/tokenizer/bpe/gpt2_files.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/files/parse_json.h"
#include "common/text/byte_order_mark.h"
#include "common/text/length_of.h"
#include "common/tokenizer/bpe/bpe_parts.h"
#include "common/tokenizer/words/json_fields.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr char kEndOfWord[] = "</w>";

std::string KnownNames() { return absl::StrJoin(EndOfTextNames(), ", "); }

bool IsEndOfTextName(const std::string& name) {
  const absl::Span<const char* const> names = EndOfTextNames();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Reads a file beside the vocabulary; null where there is none.
absl::StatusOr<Json> ParseBeside(const std::optional<absl::string_view>& text,
                                 const std::string& origin) {
  if (!text.has_value()) return Json();
  MUSTER_ASSIGN_OR_RETURN(Json json, ParseJson(*text, origin, "an object"));
  if (!json.is_object()) return RefuseField(origin, "the file", json, "expected an object");
  return json;
}

// Collects the added tokens of a folder: those that its files list with their ids, and those that
// they name as special.
class AddedTokens {
 public:
  AddedTokens(const Json& vocab, std::string folder) : vocab_(vocab), folder_(std::move(folder)) {}

  absl::Status Read(const Gpt2Files& files) {
    const std::string config_origin = folder_ + "/tokenizer_config.json";
    const std::string map_origin = folder_ + "/special_tokens_map.json";
    MUSTER_ASSIGN_OR_RETURN(const Json config, ParseBeside(files.tokenizer_config, config_origin));
    MUSTER_RETURN_IF_ERROR(CheckClass(config, config_origin));
    MUSTER_RETURN_IF_ERROR(AddListed(files, MemberOf(config, "added_tokens_decoder")));
    MUSTER_ASSIGN_OR_RETURN(const Json map, ParseBeside(files.special_tokens_map, map_origin));
    // The map is read first: where the two differ, it is the one for this purpose.
    MUSTER_RETURN_IF_ERROR(AddSpecial(map, map_origin));
    MUSTER_RETURN_IF_ERROR(AddSpecial(config, config_origin));
    if (end_of_text_.has_value()) return CheckEndOfText();
    MUSTER_RETURN_IF_ERROR(FindEndOfTextById(files.generation_config, "generation_config.json"));
    MUSTER_RETURN_IF_ERROR(FindEndOfTextById(files.config, "config.json"));
    for (const char* name : EndOfTextNames()) {
      if (!end_of_text_.has_value() && IdOf(name).is_number()) end_of_text_ = name;
    }
    if (end_of_text_.has_value()) AddByName({{"content", *end_of_text_}});
    return absl::OkStatus();
  }

  // As a tokenizer.json has them.
  Json List() const {
    Json list = Json::array();
    for (const auto& [content, token] : tokens_) list.push_back(token);
    return list;
  }

  const std::optional<std::string>& end_of_text() const { return end_of_text_; }

 private:
  // Files of this form do not say how they cut words; the class does.
  static absl::Status CheckClass(const Json& config, const std::string& origin) {
    const Json& name = MemberOf(config, "tokenizer_class");
    if (!name.is_null() && name != Json("GPT2Tokenizer") && name != Json("GPT2TokenizerFast")) {
      return RefuseField(origin, "tokenizer_class", name,
                         "a folder of vocab.json and merges.txt is understood for GPT2Tokenizer "
                         "alone, as others cut words by rules that these files do not say; put "
                         "the model's tokenizer.json there, which does");
    }
    for (const char* option : {"add_prefix_space", "add_bos_token", "add_eos_token"}) {
      if (IsOff(MemberOf(config, option))) continue;
      return RefuseField(origin, option, MemberOf(config, option), "only false is understood");
    }
    return absl::OkStatus();
  }

  // Adds the tokens of which the folder lists id and content.
  absl::Status AddListed(const Gpt2Files& files, const Json& decoder) {
    const std::string origin = folder_ + "/added_tokens.json";
    MUSTER_ASSIGN_OR_RETURN(const Json listed, ParseBeside(files.added_tokens, origin));
    for (const auto& item : listed.items()) {
      tokens_[item.key()] = {{"content", item.key()}, {"id", item.value()}, {"special", false}};
    }
    for (const auto& item : decoder.items()) {
      const Json& content = MemberOf(item.value(), "content");
      // Ids are keys there, and so texts.
      const Json id = Json::parse(item.key(), nullptr, /*allow_exceptions=*/false);
      if (!content.is_string() || !id.is_number_integer()) {
        return RefuseField(
            folder_ + "/tokenizer_config.json",
            absl::StrCat("the member of added_tokens_decoder with a key of ", LengthOf(item.key())),
            item.value(), "expected a token under its id");
      }
      Json& token = tokens_[content.get<std::string>()];
      token = item.value();
      token["id"] = id;
    }
    return absl::OkStatus();
  }

  // Adds the tokens that a file names as special.
  absl::Status AddSpecial(const Json& file, const std::string& origin) {
    for (const char* field : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                              "cls_token", "mask_token"}) {
      MUSTER_RETURN_IF_ERROR(AddNamed(MemberOf(file, field), origin, field));
    }
    const Json& more = MemberOf(file, "additional_special_tokens");
    for (const Json& each : more.is_array() ? more : Json::array()) {
      MUSTER_RETURN_IF_ERROR(AddNamed(each, origin, "additional_special_tokens"));
    }
    return absl::OkStatus();
  }

  // Adds a token that a field names, by its content alone or with its options.
  absl::Status AddNamed(const Json& value, const std::string& origin, const std::string& field) {
    if (value.is_null()) return absl::OkStatus();
    const Json token = value.is_string() ? Json({{"content", value}}) : value;
    const Json& content = MemberOf(token, "content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      return RefuseField(origin, field, value, "expected a token's text");
    }
    if (field == "eos_token" && !end_of_text_.has_value()) {
      end_of_text_ = content.get<std::string>();
      end_of_text_origin_ = origin;
    }
    AddByName(token);
    return absl::OkStatus();
  }

  // Adds a special token that the vocabulary or the lists have; others are not in the model.
  void AddByName(const Json& token) {
    const std::string content = MemberOf(token, "content").get<std::string>();
    const Json id = IdOf(content);
    if (id.is_null()) return;
    Json& added = tokens_[content];
    added.update(token);
    added["id"] = id;
    added["special"] = true;
  }

  Json IdOf(const std::string& content) const {
    const auto found = tokens_.find(content);
    return found != tokens_.end() ? MemberOf(found->second, "id") : MemberOf(vocab_, content);
  }

  absl::Status CheckEndOfText() const {
    const Json name = *end_of_text_;
    if (!IsEndOfTextName(*end_of_text_)) {
      return RefuseField(end_of_text_origin_, "eos_token", name,
                         absl::StrCat("an end of text is understood under the names ", KnownNames(),
                                      "; call it so in all files of the folder"));
    }
    if (IdOf(*end_of_text_).is_null()) {
      return RefuseField(end_of_text_origin_, "eos_token", name,
                         "neither vocab.json nor added_tokens.json has that token");
    }
    return absl::OkStatus();
  }

  // The families' own ids stand in configurations of other vocabularies, too: only that of a token
  // whose name says so counts.
  absl::Status FindEndOfTextById(const std::optional<absl::string_view>& text, const char* file) {
    MUSTER_ASSIGN_OR_RETURN(const Json json, ParseBeside(text, absl::StrCat(folder_, "/", file)));
    const Json& id = MemberOf(json, "eos_token_id");
    for (const char* name : EndOfTextNames()) {
      const Json named = IdOf(name);
      if (end_of_text_.has_value() || named.is_null()) continue;
      const bool listed = id.is_array() && std::find(id.begin(), id.end(), named) != id.end();
      if (id == named || listed) end_of_text_ = name;
    }
    return absl::OkStatus();
  }

  const Json& vocab_;
  const std::string folder_;
  // By content.
  std::map<std::string, Json> tokens_;
  std::optional<std::string> end_of_text_;
  std::string end_of_text_origin_;
};

absl::Status ParseMergesFile(absl::string_view merges, const std::string& origin,
                             const WrittenIds& ids, BpeVocabulary& vocabulary) {
  int64_t line = 0;
  for (absl::string_view text : absl::StrSplit(SkipByteOrderMark(merges), '\n')) {
    ++line;
    text = absl::StripSuffix(text, "\r");
    if (text.empty() || (line == 1 && absl::StartsWith(text, "#version"))) continue;
    const std::string place = absl::StrCat(origin, ":", line);
    const std::vector<absl::string_view> pair = absl::StrSplit(text, ' ');
    if (pair.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          place, ": a line of ", LengthOf(text), " is no merge; expected two tokens and a space"));
    }
    MUSTER_RETURN_IF_ERROR(AddMerge(ids, pair[0], pair[1], place + ":", vocabulary));
  }
  return absl::OkStatus();
}

// Refuses vocabularies that mark the ends of words, as CLIP's and the first GPT's: there such a
// token is no bytes that merges made.
absl::Status CheckNoEndsOfWords(const std::string& origin, const BpeVocabulary& vocabulary) {
  absl::flat_hash_set<std::string> made;
  for (const auto& [left, right] : vocabulary.merges) {
    made.insert(vocabulary.tokens[left] + vocabulary.tokens[right]);
  }
  const absl::flat_hash_set<int32_t> added = AddedIds(vocabulary);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    if (!absl::EndsWith(token, kEndOfWord) || token == kEndOfWord || made.contains(token) ||
        added.contains(static_cast<int32_t>(id))) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        origin, ": token ", id, ", ", LengthOf(token), ", ends with \"", kEndOfWord,
        "\", the mark of a word's end, as in CLIP's and the first GPT's vocabularies; only "
        "byte-level vocabularies as GPT-2's are understood"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BpeVocabulary> ParseGpt2Files(const Gpt2Files& files, const std::string& folder) {
  const std::string origin = folder + "/vocab.json";
  MUSTER_ASSIGN_OR_RETURN(const Json vocab,
                          ParseJson(files.vocab, origin, "an object of tokens and their ids"));
  AddedTokens added(vocab, folder);
  MUSTER_RETURN_IF_ERROR(added.Read(files));
  const Json list = added.List();
  const int64_t limit = TokenIdLimit(vocab, list);
  BpeVocabulary vocabulary;
  MUSTER_ASSIGN_OR_RETURN(vocabulary.added, ParseAddedTokens(list, folder, limit));
  MUSTER_RETURN_IF_ERROR(PlaceAdded(vocabulary.added, folder, vocabulary.tokens));
  std::sort(vocabulary.added.begin(), vocabulary.added.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  MUSTER_ASSIGN_OR_RETURN(const WrittenIds ids,
                          ParseWrittenTokens(vocab, origin, limit, vocabulary));
  MUSTER_RETURN_IF_ERROR(ParseMergesFile(files.merges, folder + "/merges.txt", ids, vocabulary));
  MUSTER_RETURN_IF_ERROR(CheckNoEndsOfWords(origin, vocabulary));
  const std::optional<int32_t> end = FindEndOfText(vocabulary.added);
  if (end.has_value() && vocabulary.tokens[*end] != added.end_of_text()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, ": its end of text is ", *added.end_of_text(), ", but ", vocabulary.tokens[*end],
        ", the more usual name of one, is a special token too; call that by another name in all "
        "files of the folder"));
  }
  return vocabulary;
}

}  // namespace muster
