#include "common/tokenizer/bpe/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <queue>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/text/length_of.h"
#include "common/text/utf8.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/byte_level.h"
#include "common/tokenizer/words/added_token_json.h"
#include "common/tokenizer/words/token_text.h"
#include "common/tokenizer/words/word_encoder.h"

namespace muster {
namespace {

constexpr int32_t kNone = -1;

// Up to so many bytes or characters, looking at all pairs for each join is faster than a heap.
constexpr size_t kShortWord = 32;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

// Adds what changes how texts are encoded. Nothing for GPT-2's rules: fingerprints of such
// tokenizers are stored beside weights of the first release.
void AddRules(const BpeVocabulary& vocabulary, FingerprintStream& stream) {
  std::string text;
  // Rules that cannot be read have no fingerprint that anybody sees.
  if (const auto rules = ParseTextRules(vocabulary.rules, ""); rules.ok()) text = rules->identity;
  if (vocabulary.ignores_merges) text += "\nignores merges";
  if (vocabulary.byte_fallback) text += "\nbyte fallback";
  if (vocabulary.fuses_unknown) text += "\nfuses unknown";
  if (vocabulary.unknown.has_value()) absl::StrAppend(&text, "\nunknown ", *vocabulary.unknown);
  stream.Add(text.data(), text.size());
}

}  // namespace

BpeVocabulary BytesAsVocabulary() {
  BpeVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  }
  return vocabulary;
}

absl::flat_hash_set<int32_t> AddedIds(const BpeVocabulary& vocabulary) {
  absl::flat_hash_set<int32_t> ids;
  for (const BpeVocabulary::AddedToken& token : vocabulary.added) ids.insert(token.id);
  return ids;
}

uint64_t VocabularyFingerprint(const BpeVocabulary& vocabulary) {
  FingerprintStream stream;
  const auto add_number = [&stream](uint64_t number) { stream.Add(&number, sizeof(number)); };
  const auto add_text = [&](const std::string& text) {
    add_number(text.size());
    stream.Add(text.data(), text.size());
  };
  add_number(vocabulary.tokens.size());
  for (const std::string& token : vocabulary.tokens) add_text(token);
  add_number(vocabulary.merges.size());
  for (const auto& [left, right] : vocabulary.merges) {
    add_number(left);
    add_number(right);
  }
  // Files list them in any order.
  std::map<int32_t, std::string> added;
  for (const BpeVocabulary::AddedToken& token : vocabulary.added) added[token.id] = token.content;
  add_number(added.size());
  for (const auto& [id, content] : added) {
    add_number(id);
    add_text(content);
  }
  AddRules(vocabulary, stream);
  return stream.Finish();
}

absl::StatusOr<std::unique_ptr<const BpeTokenizer>> BpeTokenizer::Create(BpeVocabulary vocabulary) {
  auto tokenizer = absl::WrapUnique(new BpeTokenizer(std::move(vocabulary)));
  MUSTER_RETURN_IF_ERROR(tokenizer->Index());
  return std::unique_ptr<const BpeTokenizer>(std::move(tokenizer));
}

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

absl::Status BpeTokenizer::IndexTokens() {
  const std::vector<std::string>& tokens = vocabulary_.tokens;
  const absl::flat_hash_set<int32_t> added = AddedIds(vocabulary_);
  absl::flat_hash_map<absl::string_view, int32_t> added_ids;
  for (int32_t id = 0; id < static_cast<int32_t>(tokens.size()); ++id) {
    if (tokens[id].empty()) continue;
    auto& among = added.contains(id) ? added_ids : ids_;
    const auto [other, inserted] = among.emplace(tokens[id], id);
    if (!inserted) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens ", other->second, " and ", id,
                       " are the same text; a vocabulary has each token once"));
    }
  }
  for (const auto& [text, id] : added_ids) {
    const auto [other, inserted] = ids_.emplace(text, id);
    // Only of bytes files write the two in different ways.
    if (inserted || vocabulary_.byte_level) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tokens ", other->second, " and ", id,
                     " are the same text; a vocabulary has each token once"));
  }
  return absl::OkStatus();
}

bool BpeTokenizer::IsToken(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < vocabulary_.tokens.size() &&
         !vocabulary_.tokens[id].empty();
}

absl::Status BpeTokenizer::IndexBytes() {
  has_byte_tokens_ = true;
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    const std::string name = absl::StrFormat("<0x%02X>", byte);
    const auto found = ids_.find(vocabulary_.byte_level ? absl::string_view(&character, 1)
                                                        : absl::string_view(name));
    byte_tokens_[byte] = found == ids_.end() ? kNone : found->second;
    if (found != ids_.end()) continue;
    has_byte_tokens_ = false;
    if (!vocabulary_.byte_level) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the vocabulary has no token for the byte ", byte,
                     ", so not every text could be encoded; a byte-level vocabulary has all 256"));
  }
  if (vocabulary_.byte_level) return absl::OkStatus();
  has_byte_tokens_ = has_byte_tokens_ && vocabulary_.byte_fallback;
  if (vocabulary_.unknown.has_value() ? IsToken(*vocabulary_.unknown) : has_byte_tokens_) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "the vocabulary has neither a token for each byte with model.byte_fallback nor a "
      "model.unk_token, so not every text could be encoded");
}

absl::Status BpeTokenizer::IndexMerges() {
  const std::vector<std::string>& tokens = vocabulary_.tokens;
  merges_.reserve(vocabulary_.merges.size());
  for (size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const std::pair<int32_t, int32_t>& merge = vocabulary_.merges[rank];
    if (!IsToken(merge.first) || !IsToken(merge.second)) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " joins tokens ", merge.first,
                                                     " and ", merge.second,
                                                     ", which are not both in the vocabulary"));
    }
    const std::string joined = tokens[merge.first] + tokens[merge.second];
    const auto found = ids_.find(joined);
    if (found == ids_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " makes a text of ",
                                                     LengthOf(joined),
                                                     ", which is no token of the vocabulary"));
    }
    // Of a pair learned twice the first counts: the second could never be applied.
    merges_.emplace(PairKey(merge.first, merge.second),
                    Merge{static_cast<int32_t>(rank), found->second});
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::CheckAdded() const {
  for (const BpeVocabulary::AddedToken& added : vocabulary_.added) {
    if (added.content.empty() || !IsToken(added.id) ||
        vocabulary_.tokens[added.id] != added.content) {
      return absl::InvalidArgumentError(
          absl::StrCat("added token ", added.id, " is a text of ", LengthOf(added.content),
                       ", expected the one that is that token of the vocabulary"));
    }
    if (!vocabulary_.byte_level) continue;
    // Files of vocabularies write the one as it is and the other in characters for its bytes.
    const std::optional<std::string> bytes = FromByteLevel(added.content);
    if (const auto other = bytes.has_value() ? ids_.find(*bytes) : ids_.end();
        other != ids_.end() && other->second != added.id) {
      return absl::InvalidArgumentError(
          absl::StrCat("added token ", added.id, " is a text of ", LengthOf(added.content),
                       ", which is how a tokenizer.json writes token ", other->second,
                       ", so it could not be told from that one; add it under another text"));
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<const CharacterPairs> BpeTokenizer::JoinedCharacters() const {
  // Merges of bytes' tokens join what no token has.
  if (vocabulary_.byte_level) return nullptr;
  auto pairs = std::make_unique<CharacterPairs>();
  for (const auto& [left, right] : vocabulary_.merges) {
    if (ByteOfToken(vocabulary_.tokens[left]) >= 0 || ByteOfToken(vocabulary_.tokens[right]) >= 0) {
      return nullptr;
    }
    pairs->Add(vocabulary_.tokens[left] + vocabulary_.tokens[right]);
  }
  if (vocabulary_.ignores_merges) {
    for (const std::string& token : vocabulary_.tokens) pairs->Add(token);
  }
  // Unknown characters beside each other may be fused.
  if (!has_byte_tokens_) {
    for (const auto& [text, id] : ids_) pairs->AddKnown(text);
    pairs->JoinOthers();
  }
  return pairs;
}

absl::Status BpeTokenizer::Index() {
  MUSTER_ASSIGN_OR_RETURN(ReadTextRules rules,
                          ParseTextRules(vocabulary_.rules, "the tokenizer's rules"));
  vocabulary_.byte_level = rules.byte_level;
  MUSTER_RETURN_IF_ERROR(IndexTokens());
  MUSTER_RETURN_IF_ERROR(IndexBytes());
  MUSTER_RETURN_IF_ERROR(IndexMerges());
  MUSTER_RETURN_IF_ERROR(CheckAdded());
  for (const int32_t token : rules.before_document) {
    if (IsToken(token)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "post_processor puts token ", token, " before documents, which is not in the vocabulary"));
  }
  if (!vocabulary_.byte_level) {
    for (const std::string& token : vocabulary_.tokens) bytes_.push_back(BytesOfText(token, rules));
  }
  end_of_text_ = FindEndOfText(vocabulary_.added);
  json_ = WriteBpeJson(vocabulary_);
  fingerprint_ = VocabularyFingerprint(vocabulary_);
  divider_ =
      std::make_unique<const TextDivider>(std::move(rules), vocabulary_.added, JoinedCharacters());
  return absl::OkStatus();
}

absl::Span<const int32_t> BpeTokenizer::before_document() const {
  return divider_->rules().before_document;
}

int64_t BpeTokenizer::vocabulary() const { return static_cast<int64_t>(vocabulary_.tokens.size()); }

absl::string_view BpeTokenizer::BytesOf(int32_t token) const {
  return vocabulary_.byte_level ? vocabulary_.tokens[token] : bytes_[token];
}

const BpeTokenizer::Merge* BpeTokenizer::Find(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeTokenizer::Start(absl::string_view word, std::vector<int32_t>& tokens) const {
  tokens.clear();
  if (vocabulary_.byte_level) {
    for (const char byte : word) tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
    return;
  }
  while (!word.empty()) {
    const absl::string_view character = word.substr(0, FirstCodePoint(word).bytes);
    word.remove_prefix(character.size());
    if (const auto found = ids_.find(character); found != ids_.end()) {
      tokens.push_back(found->second);
      continue;
    }
    const bool has_bytes =
        vocabulary_.byte_fallback && absl::c_all_of(character, [this](char byte) {
          return byte_tokens_[static_cast<unsigned char>(byte)] != kNone;
        });
    if (has_bytes) {
      for (const char byte : character) {
        tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
      }
    } else if (!vocabulary_.fuses_unknown || tokens.empty() ||
               tokens.back() != *vocabulary_.unknown) {
      tokens.push_back(*vocabulary_.unknown);
    }
  }
}

void BpeTokenizer::JoinShort(std::vector<int32_t>& tokens) const {
  // The merge of each token with the next one; null: none.
  std::array<const Merge*, kShortWord> merges;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) merges[i] = Find(tokens[i], tokens[i + 1]);
  while (tokens.size() > 1) {
    const size_t pairs = tokens.size() - 1;
    size_t best = pairs;
    for (size_t i = 0; i < pairs; ++i) {
      if (merges[i] == nullptr) continue;
      if (best == pairs || merges[i]->rank < merges[best]->rank) best = i;
    }
    if (best == pairs) return;
    tokens[best] = merges[best]->token;
    tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + pairs, merges.begin() + best);
    if (best > 0) merges[best - 1] = Find(tokens[best - 1], tokens[best]);
    if (best + 1 < tokens.size()) merges[best] = Find(tokens[best], tokens[best + 1]);
  }
}

void BpeTokenizer::EncodeWord(absl::string_view word, std::vector<int32_t>& tokens) const {
  if (vocabulary_.ignores_merges) {
    if (const auto found = ids_.find(word); found != ids_.end()) {
      tokens.assign(1, found->second);
      return;
    }
  }
  Start(word, tokens);
  if (tokens.size() <= kShortWord) return JoinShort(tokens);
  const auto size = static_cast<int32_t>(tokens.size());
  // A list of the tokens that are left: joined ones keep the left one's place.
  std::vector<int32_t> next(size);
  std::vector<int32_t> previous(size);
  struct Candidate {
    int32_t rank;
    int32_t left;
    int32_t right;
    int32_t token;
    // What stood there when the pair was found: it may be joined to others meanwhile.
    int32_t left_token;
    int32_t right_token;
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](int32_t left, int32_t right) {
    if (const Merge* merge = Find(tokens[left], tokens[right])) {
      candidates.push({merge->rank, left, right, merge->token, tokens[left], tokens[right]});
    }
  };
  for (int32_t i = 0; i < size; ++i) {
    previous[i] = i - 1;
    next[i] = i + 1;
    if (i + 1 < size) consider(i, i + 1);
  }
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    if (tokens[best.left] != best.left_token || tokens[best.right] != best.right_token ||
        next[best.left] != best.right) {
      continue;
    }
    tokens[best.left] = best.token;
    tokens[best.right] = kNone;
    next[best.left] = next[best.right];
    if (next[best.right] < size) {
      previous[next[best.right]] = best.left;
      consider(best.left, next[best.right]);
    }
    if (previous[best.left] >= 0) consider(previous[best.left], best.left);
  }
  tokens.erase(std::remove(tokens.begin(), tokens.end(), kNone), tokens.end());
}

size_t BpeTokenizer::SplitAfter(absl::string_view text, size_t at) const {
  return divider_->SplitAfter(text, at);
}

void BpeTokenizer::Encode(absl::string_view text, TextStart start,
                          absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const {
  const auto encode_word = [this](absl::string_view word, std::vector<int32_t>& tokens) {
    EncodeWord(word, tokens);
  };
  EncodeWords(*divider_, text, start, encode_word, sink);
}

}  // namespace muster
