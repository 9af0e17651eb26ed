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

namespace muster {
namespace {

using Json = nlohmann::json;

std::string TypeOf(const Json& value) {
  const Json& type = MemberOf(value, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

// What surrounds the vocabulary must neither change the text nor cut it in another way.
absl::Status CheckSurroundings(const Json& json, const std::string& origin) {
  const Json& normalizer = MemberOf(json, "normalizer");
  if (!normalizer.is_null()) {
    return RefuseField(
        origin, "normalizer", normalizer,
        "only tokenizers without one are understood, as decoding must give the very bytes "
        "that were encoded");
  }
  const Json& pre_tokenizer = MemberOf(json, "pre_tokenizer");
  if (TypeOf(pre_tokenizer) != "ByteLevel") {
    return RefuseField(origin, "pre_tokenizer", pre_tokenizer,
                       "only ByteLevel, the rule of GPT-2, is understood");
  }
  if (!IsOff(MemberOf(pre_tokenizer, "add_prefix_space"))) {
    return RefuseField(origin, "pre_tokenizer.add_prefix_space",
                       MemberOf(pre_tokenizer, "add_prefix_space"), "only false is understood");
  }
  const Json& use_regex = MemberOf(pre_tokenizer, "use_regex");
  if (!use_regex.is_null() && use_regex != Json(true)) {
    return RefuseField(origin, "pre_tokenizer.use_regex", use_regex, "only true is understood");
  }
  const Json& decoder = MemberOf(json, "decoder");
  if (!decoder.is_null() && TypeOf(decoder) != "ByteLevel") {
    return RefuseField(origin, "decoder", decoder, "only ByteLevel is understood");
  }
  const Json& post_processor = MemberOf(json, "post_processor");
  if (!post_processor.is_null() && TypeOf(post_processor) != "ByteLevel") {
    return RefuseField(origin, "post_processor", post_processor,
                       "only ByteLevel, which adds no tokens, is understood");
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const Json& model, const std::string& origin) {
  if (TypeOf(model) != "BPE") {
    return RefuseField(origin, "model.type", MemberOf(model, "type"),
                       "only BPE (byte-level byte-pair encoding) is understood");
  }
  for (const char* option : {"dropout", "unk_token", "continuing_subword_prefix",
                             "end_of_word_suffix", "byte_fallback", "ignore_merges"}) {
    if (!IsOff(MemberOf(model, option))) {
      // GPT-2's own file names its end-of-text here; with a token for every byte nothing is
      // unknown.
      if (absl::string_view(option) == "unk_token") continue;
      return RefuseField(origin, absl::StrCat("model.", option), MemberOf(model, option),
                         "only tokenizers without it are understood");
    }
  }
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

}  // namespace

std::string WriteBpeJson(const BpeVocabulary& vocabulary) {
  Json added = Json::array();
  for (const BpeVocabulary::AddedToken& token : vocabulary.added) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", token.normalized},
                     {"special", token.special}});
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
  const absl::flat_hash_set<int32_t> as_they_are = AddedIds(vocabulary);
  absl::flat_hash_set<absl::string_view> of_words;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!as_they_are.contains(static_cast<int32_t>(id))) of_words.insert(vocabulary.tokens[id]);
  }
  Json vocab = Json::object();
  // Readers look up an added token by its content, and give it another id if that is not there.
  for (const BpeVocabulary::AddedToken& token : vocabulary.added) vocab[token.content] = token.id;
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
  MUSTER_ASSIGN_OR_RETURN(const Json json,
                          ParseJson(text, origin, "a file as `muster tokenizer train` writes it"));
  const Json& model = MemberOf(json, "model");
  if (!model.is_object()) {
    return RefuseField(origin, "model", model,
                       "expected a tokenizer.json, as `muster tokenizer train` writes it");
  }
  MUSTER_RETURN_IF_ERROR(CheckModel(model, origin));
  MUSTER_RETURN_IF_ERROR(CheckSurroundings(json, origin));
  BpeVocabulary vocabulary;
  const Json& added = MemberOf(json, "added_tokens");
  const Json& vocab = MemberOf(model, "vocab");
  const int64_t limit = TokenIdLimit(vocab, added);
  MUSTER_RETURN_IF_ERROR(ParseAddedTokens(added, origin, limit, vocabulary));
  MUSTER_ASSIGN_OR_RETURN(const WrittenIds ids,
                          ParseWrittenTokens(vocab, origin, limit, vocabulary));
  MUSTER_RETURN_IF_ERROR(ParseMerges(MemberOf(model, "merges"), origin, ids, vocabulary));
  return vocabulary;
}

}  // namespace muster
