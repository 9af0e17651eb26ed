#include "common/tokenizer/bpe/bpe_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <queue>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/text/length_of.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/byte_level.h"
#include "common/tokenizer/bpe/pre_tokenizer.h"

namespace muster {
namespace {

constexpr int32_t kNone = -1;

constexpr const char* kEndOfTextNames[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

// Where the next added token stands in a text, by looking for each only once it was passed.
class AddedTokenFinder {
 public:
  AddedTokenFinder(const std::vector<BpeVocabulary::AddedToken>& added, absl::string_view text)
      : text_(text) {
    for (const BpeVocabulary::AddedToken& token : added) {
      if (const size_t at = text.find(token.content); at != absl::string_view::npos) {
        next_.push_back({&token, at});
      }
    }
  }

  struct Found {
    const BpeVocabulary::AddedToken* token = nullptr;
    size_t at = 0;
  };

  // The first at or after `from`, of several there the longest; a null token if there is none.
  Found Next(size_t from) {
    Found best;
    for (auto each = next_.begin(); each != next_.end();) {
      if (each->at < from) each->at = text_.find(each->token->content, from);
      if (each->at == absl::string_view::npos) {
        each = next_.erase(each);
        continue;
      }
      if (best.token == nullptr || each->at < best.at ||
          (each->at == best.at && each->token->content.size() > best.token->content.size())) {
        best = *each;
      }
      ++each;
    }
    return best;
  }

 private:
  const absl::string_view text_;
  std::vector<Found> next_;
};

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

absl::Span<const char* const> EndOfTextNames() { return kEndOfTextNames; }

std::optional<int32_t> FindEndOfText(const BpeVocabulary& vocabulary) {
  for (const char* name : kEndOfTextNames) {
    for (const BpeVocabulary::AddedToken& added : vocabulary.added) {
      if (added.content == name) return added.id;
    }
  }
  return std::nullopt;
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
  return stream.Finish();
}

class BpeTokenizer::WordTable {
 public:
  // The word's tokens; none if it is not in the table.
  std::optional<absl::Span<const int32_t>> Find(absl::string_view word) const {
    const auto found = words_.find(word);
    if (found == words_.end()) return std::nullopt;
    return absl::MakeConstSpan(tokens_).subspan(found->second.first, found->second.second);
  }

  // Keeps a word while there is room.
  void Add(absl::string_view word, absl::Span<const int32_t> tokens) {
    if (words_.size() >= kMostWords || word.size() > kLongestWord) return;
    words_.emplace(word, std::make_pair(tokens_.size(), tokens.size()));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

 private:
  static constexpr size_t kMostWords = size_t{1} << 18;
  static constexpr size_t kLongestWord = 64;

  // Where a word's tokens begin, and how many there are.
  absl::flat_hash_map<std::string, std::pair<size_t, size_t>> words_;
  std::vector<int32_t> tokens_;
};

absl::StatusOr<std::unique_ptr<const BpeTokenizer>> BpeTokenizer::Create(BpeVocabulary vocabulary) {
  auto tokenizer = absl::WrapUnique(new BpeTokenizer(std::move(vocabulary)));
  MUSTER_RETURN_IF_ERROR(tokenizer->Index());
  return std::unique_ptr<const BpeTokenizer>(std::move(tokenizer));
}

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

absl::StatusOr<absl::flat_hash_map<absl::string_view, int32_t>> BpeTokenizer::IndexTokens() const {
  const std::vector<std::string>& tokens = vocabulary_.tokens;
  const absl::flat_hash_set<int32_t> added = AddedIds(vocabulary_);
  absl::flat_hash_map<absl::string_view, int32_t> ids, added_ids;
  for (int32_t id = 0; id < static_cast<int32_t>(tokens.size()); ++id) {
    if (tokens[id].empty()) continue;
    auto& among = added.contains(id) ? added_ids : ids;
    const auto [other, inserted] = among.emplace(tokens[id], id);
    if (!inserted) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens ", other->second, " and ", id,
                       " are the same text; a vocabulary has each token once"));
    }
  }
  ids.insert(added_ids.begin(), added_ids.end());
  return ids;
}

absl::Status BpeTokenizer::Index() {
  const std::vector<std::string>& tokens = vocabulary_.tokens;
  MUSTER_ASSIGN_OR_RETURN(const auto ids, IndexTokens());
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    const auto found = ids.find(absl::string_view(&character, 1));
    if (found == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the vocabulary has no token for the byte ", byte,
          ", so not every text could be encoded; a byte-level vocabulary has all 256"));
    }
    byte_tokens_[byte] = found->second;
  }
  const auto is_token = [&tokens](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < tokens.size() && !tokens[id].empty();
  };
  merges_.reserve(vocabulary_.merges.size());
  for (size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const std::pair<int32_t, int32_t>& merge = vocabulary_.merges[rank];
    if (!is_token(merge.first) || !is_token(merge.second)) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " joins tokens ", merge.first,
                                                     " and ", merge.second,
                                                     ", which are not both in the vocabulary"));
    }
    const std::string joined = tokens[merge.first] + tokens[merge.second];
    const auto found = ids.find(joined);
    if (found == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " makes a text of ",
                                                     LengthOf(joined),
                                                     ", which is no token of the vocabulary"));
    }
    // Of a pair learned twice the first counts: the second could never be applied.
    merges_.emplace(PairKey(merge.first, merge.second),
                    Merge{static_cast<int32_t>(rank), found->second});
  }
  for (const BpeVocabulary::AddedToken& added : vocabulary_.added) {
    if (added.content.empty() || !is_token(added.id) || tokens[added.id] != added.content) {
      return absl::InvalidArgumentError(
          absl::StrCat("added token ", added.id, " is a text of ", LengthOf(added.content),
                       ", expected the one that is that token of the vocabulary"));
    }
    // Files of vocabularies write the one as it is and the other in characters for its bytes.
    const std::optional<std::string> bytes = FromByteLevel(added.content);
    if (const auto other = bytes.has_value() ? ids.find(*bytes) : ids.end();
        other != ids.end() && other->second != added.id) {
      return absl::InvalidArgumentError(
          absl::StrCat("added token ", added.id, " is a text of ", LengthOf(added.content),
                       ", which is how a tokenizer.json writes token ", other->second,
                       ", so it could not be told from that one; add it under another text"));
    }
  }
  end_of_text_ = FindEndOfText(vocabulary_);
  json_ = WriteBpeJson(vocabulary_);
  fingerprint_ = VocabularyFingerprint(vocabulary_);
  return absl::OkStatus();
}

int64_t BpeTokenizer::vocabulary() const { return static_cast<int64_t>(vocabulary_.tokens.size()); }

absl::string_view BpeTokenizer::BytesOf(int32_t token) const { return vocabulary_.tokens[token]; }

const BpeTokenizer::Merge* BpeTokenizer::Find(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeTokenizer::EncodeWord(absl::string_view word, std::vector<int32_t>& tokens) const {
  tokens.clear();
  for (const char byte : word) tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
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

void BpeTokenizer::EncodePlain(
    absl::string_view text, WordTable& words, std::vector<int32_t>& pending,
    absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const {
  constexpr size_t kPending = 4096;
  std::vector<int32_t> fresh;
  ForEachWord(text, [&](absl::string_view word) {
    std::optional<absl::Span<const int32_t>> tokens = words.Find(word);
    if (!tokens.has_value()) {
      EncodeWord(word, fresh);
      words.Add(word, fresh);
      tokens = fresh;
    }
    pending.insert(pending.end(), tokens->begin(), tokens->end());
    if (pending.size() >= kPending) {
      sink(pending);
      pending.clear();
    }
  });
}

bool BpeTokenizer::HasAddedAcross(absl::string_view text, size_t at) const {
  for (const BpeVocabulary::AddedToken& token : vocabulary_.added) {
    const size_t most = token.content.size() - 1;
    const size_t begin = at - std::min(at, most);
    const size_t around = at - begin + std::min(most, text.size() - at);
    if (text.substr(begin, around).find(token.content) != absl::string_view::npos) return true;
  }
  return false;
}

// No occurrence of an added token lies across the place, so added tokens are found on both sides as
// in the whole text. The text between them is cut into words from left to right, each by what
// follows its beginning, so the words behind the place are the same if a word begins there; and
// those before it, if none of them depends on what follows (IsAlwaysBetweenWords).
size_t BpeTokenizer::SplitAfter(absl::string_view text, size_t at) const {
  for (size_t place = at; place < text.size(); ++place) {
    if (IsAlwaysBetweenWords(text, place) && !HasAddedAcross(text, place)) return place;
  }
  return text.size();
}

void BpeTokenizer::Encode(absl::string_view text,
                          absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const {
  WordTable words;
  std::vector<int32_t> pending;
  AddedTokenFinder added(vocabulary_.added, text);
  for (size_t at = 0; at < text.size();) {
    const AddedTokenFinder::Found found = added.Next(at);
    const size_t end = found.token == nullptr ? text.size() : found.at;
    EncodePlain(text.substr(at, end - at), words, pending, sink);
    at = end;
    if (found.token != nullptr) {
      pending.push_back(found.token->id);
      at += found.token->content.size();
    }
  }
  if (!pending.empty()) sink(pending);
}

}  // namespace muster
