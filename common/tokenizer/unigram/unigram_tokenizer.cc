#include "common/tokenizer/unigram/unigram_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/text/length_of.h"
#include "common/text/utf8.h"
#include "common/tokenizer/unigram/unigram_json.h"
#include "common/tokenizer/words/added_token_json.h"
#include "common/tokenizer/words/token_text.h"
#include "common/tokenizer/words/word_encoder.h"

namespace muster {
namespace {

constexpr double kUnknownPenalty = 10;

// The best way to divide a word up to a place.
struct BestPath {
  double score = 0;
  // The place at which its last token begins; -1: there is no way yet.
  int32_t begin = -1;
  // The token; -1: an unknown character.
  int32_t token = -1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const UnigramTokenizer>> UnigramTokenizer::Create(
    UnigramVocabulary vocabulary) {
  auto tokenizer = absl::WrapUnique(new UnigramTokenizer(std::move(vocabulary)));
  MUSTER_RETURN_IF_ERROR(tokenizer->Index());
  return std::unique_ptr<const UnigramTokenizer>(std::move(tokenizer));
}

absl::Status UnigramTokenizer::IndexTokens() {
  nodes_.emplace_back();
  double least = 0;
  for (size_t id = 0; id < vocabulary_.scores.size(); ++id) {
    if (!std::isfinite(vocabulary_.scores[id])) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", id, " has no finite score; expected a logarithm"));
    }
    least = std::min(least, vocabulary_.scores[id]);
    const std::string& token = vocabulary_.tokens[id];
    if (token.empty()) continue;
    int32_t node = 0;
    for (const char byte : token) {
      const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
      const auto [next, inserted] = next_.emplace(key, static_cast<int32_t>(nodes_.size()));
      if (inserted) nodes_.emplace_back();
      node = next->second;
    }
    if (nodes_[node].token >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens ", nodes_[node].token, " and ", id,
                       " are the same text; a vocabulary has each token once"));
    }
    nodes_[node].token = static_cast<int32_t>(id);
  }
  unknown_score_ = least - kUnknownPenalty;
  for (const AddedToken& added : vocabulary_.added) {
    if (!added.content.empty() && added.id >= 0 &&
        static_cast<size_t>(added.id) < vocabulary_.tokens.size() &&
        vocabulary_.tokens[added.id] == added.content) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("added token ", added.id, " is a text of ", LengthOf(added.content),
                     ", expected the one that is that token of the vocabulary"));
  }
  return absl::OkStatus();
}

absl::Status UnigramTokenizer::IndexUnknown() {
  absl::flat_hash_map<absl::string_view, int32_t> ids;
  for (size_t id = 0; id < vocabulary_.scores.size(); ++id) {
    ids.emplace(vocabulary_.tokens[id], static_cast<int32_t>(id));
  }
  bool all = vocabulary_.byte_fallback;
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(absl::StrFormat("<0x%02X>", byte));
    byte_tokens_[byte] = found == ids.end() ? -1 : found->second;
    all = all && found != ids.end();
  }
  const bool has_unknown = vocabulary_.unknown.has_value() && *vocabulary_.unknown >= 0 &&
                           static_cast<size_t>(*vocabulary_.unknown) < vocabulary_.tokens.size();
  if (vocabulary_.unknown.has_value() ? has_unknown : all) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the vocabulary has neither a token for each byte with model.byte_fallback nor a "
      "model.unk_id, so not every text could be encoded");
}

std::unique_ptr<const CharacterPairs> UnigramTokenizer::JoinedCharacters() const {
  auto pairs = std::make_unique<CharacterPairs>();
  for (size_t id = 0; id < vocabulary_.scores.size(); ++id) {
    pairs->Add(vocabulary_.tokens[id]);
    pairs->AddKnown(vocabulary_.tokens[id]);
  }
  pairs->JoinOthers();
  return pairs;
}

uint64_t UnigramTokenizer::FingerprintOf(const ReadTextRules& rules) const {
  FingerprintStream stream;
  const auto add_text = [&stream](absl::string_view text) {
    const uint64_t size = text.size();
    stream.Add(&size, sizeof(size));
    stream.Add(text.data(), text.size());
  };
  add_text("unigram");
  for (const std::string& token : vocabulary_.tokens) add_text(token);
  stream.Add(vocabulary_.scores.data(), vocabulary_.scores.size() * sizeof(double));
  std::map<int32_t, std::string> added;
  for (const AddedToken& token : vocabulary_.added) added[token.id] = token.content;
  for (const auto& [id, content] : added) add_text(absl::StrCat(id, " ", content));
  add_text(absl::StrCat(rules.identity, "\n", vocabulary_.byte_fallback, " ",
                        vocabulary_.unknown.value_or(-1)));
  return stream.Finish();
}

absl::Status UnigramTokenizer::Index() {
  MUSTER_ASSIGN_OR_RETURN(ReadTextRules rules,
                          ParseTextRules(vocabulary_.rules, "the tokenizer's rules"));
  if (rules.byte_level) {
    return absl::InvalidArgumentError(
        "the pre_tokenizer is ByteLevel; a unigram vocabulary is understood over characters");
  }
  MUSTER_RETURN_IF_ERROR(IndexTokens());
  MUSTER_RETURN_IF_ERROR(IndexUnknown());
  for (const int32_t token : rules.before_document) {
    if (static_cast<size_t>(token) < vocabulary_.tokens.size() &&
        !vocabulary_.tokens[token].empty()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "post_processor puts token ", token, " before documents, which is not in the vocabulary"));
  }
  for (const std::string& token : vocabulary_.tokens) bytes_.push_back(BytesOfText(token, rules));
  end_of_text_ = FindEndOfText(vocabulary_.added);
  json_ = WriteUnigramJson(vocabulary_);
  fingerprint_ = FingerprintOf(rules);
  divider_ =
      std::make_unique<const TextDivider>(std::move(rules), vocabulary_.added, JoinedCharacters());
  return absl::OkStatus();
}

void UnigramTokenizer::AppendUnknown(absl::string_view text, std::vector<int32_t>& tokens) const {
  const bool has_bytes = vocabulary_.byte_fallback && absl::c_all_of(text, [this](char byte) {
                           return byte_tokens_[static_cast<unsigned char>(byte)] >= 0;
                         });
  if (!has_bytes) {
    tokens.push_back(*vocabulary_.unknown);
    return;
  }
  for (const char byte : text) tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
}

void UnigramTokenizer::EncodeWord(absl::string_view word, std::vector<int32_t>& tokens) const {
  tokens.clear();
  std::vector<BestPath> best(word.size() + 1);
  const auto offer = [&best](size_t begin, size_t end, double score, int32_t token) {
    if (best[end].begin >= 0 && score <= best[end].score) return;
    best[end] = {score, static_cast<int32_t>(begin), token};
  };
  for (size_t begin = 0; begin < word.size();) {
    const size_t character = FirstCodePoint(word.substr(begin)).bytes;
    const double score = best[begin].score;
    bool is_token = false;
    int32_t node = 0;
    for (size_t end = begin; end < word.size();) {
      const auto next =
          next_.find(static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(word[end]));
      if (next == next_.end()) break;
      node = next->second;
      ++end;
      const int32_t token = nodes_[node].token;
      if (token < 0) continue;
      is_token = is_token || end - begin == character;
      offer(begin, end, score + vocabulary_.scores[token], token);
    }
    if (!is_token) offer(begin, begin + character, score + unknown_score_, -1);
    begin += character;
  }
  // From the end: the tokens, and runs of unknown characters.
  struct Part {
    size_t begin, end;
    int32_t token;
  };
  std::vector<Part> parts;
  for (size_t end = word.size(); end > 0;) {
    const BestPath& last = best[end];
    const auto begin = static_cast<size_t>(last.begin);
    // The token for unknown characters may be written in a text, too.
    const int32_t token = last.token == vocabulary_.unknown ? -1 : last.token;
    if (token < 0 && !parts.empty() && parts.back().token < 0) {
      parts.back().begin = begin;
    } else {
      parts.push_back({begin, end, token});
    }
    end = begin;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->token >= 0) {
      tokens.push_back(part->token);
    } else {
      AppendUnknown(word.substr(part->begin, part->end - part->begin), tokens);
    }
  }
}

void UnigramTokenizer::Encode(
    absl::string_view text, TextStart start,
    absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const {
  const auto encode_word = [this](absl::string_view word, std::vector<int32_t>& tokens) {
    EncodeWord(word, tokens);
  };
  EncodeWords(*divider_, text, start, encode_word, sink);
}

}  // namespace muster
