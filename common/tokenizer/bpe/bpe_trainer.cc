#include "common/tokenizer/bpe/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/byte_level.h"

namespace muster {
namespace {

constexpr char kEndOfText[] = "<|endoftext|>";

using Pair = std::pair<int32_t, int32_t>;

struct Word {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

// What is known of a pair of neighbours.
struct PairState {
  int64_t count = 0;
  // Words it has been in; it may be in some of them no more.
  std::vector<int32_t> words;
};

struct Candidate {
  int64_t count;
  Pair pair;
  // The top of the heap is the most frequent, of these the smallest.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Merger {
 public:
  explicit Merger(std::vector<Word> words) : words_(std::move(words)) {
    for (size_t w = 0; w < words_.size(); ++w) {
      const std::vector<int32_t>& tokens = words_[w].tokens;
      for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        Change({tokens[i], tokens[i + 1]}, words_[w].count, static_cast<int32_t>(w));
      }
    }
    for (const auto& [pair, state] : pairs_) candidates_.push({state.count, pair});
    changed_.clear();
  }

  // The most frequent pair; none if no pair stands twice.
  std::optional<Pair> Best() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      const auto found = pairs_.find(best.pair);
      const int64_t count = found == pairs_.end() ? 0 : found->second.count;
      if (count == best.count) return count < 2 ? std::nullopt : std::make_optional(best.pair);
      // Joins of other pairs have changed it since.
      candidates_.pop();
      if (count > 0 && count < best.count) candidates_.push({count, best.pair});
    }
    return std::nullopt;
  }

  // Joins a pair into `token` wherever it stands.
  void Join(Pair pair, int32_t token) {
    changed_.clear();
    std::vector<int32_t> words = std::move(pairs_[pair].words);
    pairs_.erase(pair);
    // A token made from two pairs has its neighbours counted in two rounds.
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const int32_t w : words) JoinIn(w, pair, token);
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const Pair& each : changed_) {
      if (const int64_t count = pairs_[each].count; count > 0) candidates_.push({count, each});
    }
    // In a run such as "aaa" pairs overlap, and those that are no more were taken off once more.
    pairs_.erase(pair);
  }

 private:
  void Change(Pair pair, int64_t by, int32_t word) {
    PairState& state = pairs_[pair];
    state.count += by;
    if (by > 0) {
      if (state.words.empty() || state.words.back() != word) state.words.push_back(word);
      changed_.push_back(pair);
    }
  }

  void JoinIn(int32_t w, Pair pair, int32_t token) {
    std::vector<int32_t>& tokens = words_[w].tokens;
    const int64_t count = words_[w].count;
    size_t kept = 0;
    for (size_t i = 0; i < tokens.size();) {
      if (i + 1 == tokens.size() || tokens[i] != pair.first || tokens[i + 1] != pair.second) {
        tokens[kept++] = tokens[i++];
        continue;
      }
      if (kept > 0) {
        Change({tokens[kept - 1], pair.first}, -count, w);
        Change({tokens[kept - 1], token}, count, w);
      }
      if (i + 2 < tokens.size()) {
        Change({pair.second, tokens[i + 2]}, -count, w);
        Change({token, tokens[i + 2]}, count, w);
      }
      tokens[kept++] = token;
      i += 2;
    }
    tokens.resize(kept);
  }

  std::vector<Word> words_;
  absl::flat_hash_map<Pair, PairState> pairs_;
  std::priority_queue<Candidate> candidates_;
  // Pairs that grew since the last join.
  std::vector<Pair> changed_;
};

}  // namespace

BpeTrainer::BpeTrainer() : divider_(Gpt2Words()) {}

void BpeTrainer::Add(absl::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(kEndOfText), text.size());
    divider_->ForEachPiece(text.substr(0, end), TextStart::kText,
                           [this](const TextDivider::Piece& word) {
                             const auto found = words_.find(word.text);
                             if (found != words_.end()) {
                               ++found->second;
                             } else {
                               words_.emplace(word.text, 1);
                             }
                           });
    text.remove_prefix(std::min(text.size(), end + sizeof(kEndOfText) - 1));
  }
}

absl::StatusOr<BpeVocabulary> BpeTrainer::Train(int64_t vocabulary) const {
  if (vocabulary < kLeastVocabulary || vocabulary > kMostVocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vocabulary of ", vocabulary, " tokens is out of range; expected ",
                     kLeastVocabulary, " (256 bytes and the end of text) to ", kMostVocabulary));
  }
  BpeVocabulary learned;
  // Two pairs may make one token: (a, bc) and (ab, c).
  absl::flat_hash_map<std::string, int32_t> ids;
  const auto token_for = [&](std::string bytes) {
    const auto next = static_cast<int32_t>(learned.tokens.size());
    const auto found = ids.emplace(bytes, next);
    if (found.second) learned.tokens.push_back(std::move(bytes));
    return found.first->second;
  };
  std::array<int32_t, 256> byte_tokens;
  for (const uint8_t byte : ByteLevelOrder()) {
    byte_tokens[byte] = token_for(std::string(1, static_cast<char>(byte)));
  }
  std::vector<Word> words;
  words.reserve(words_.size());
  for (const auto& [text, count] : words_) {
    Word word;
    word.count = count;
    for (const char byte : text) {
      word.tokens.push_back(byte_tokens[static_cast<unsigned char>(byte)]);
    }
    words.push_back(std::move(word));
  }
  Merger merger(std::move(words));
  while (static_cast<int64_t>(learned.tokens.size()) < vocabulary - 1) {
    const std::optional<Pair> best = merger.Best();
    if (!best.has_value()) break;
    learned.merges.push_back(*best);
    merger.Join(*best, token_for(learned.tokens[best->first] + learned.tokens[best->second]));
  }
  learned.added.push_back({static_cast<int32_t>(learned.tokens.size()), kEndOfText});
  learned.tokens.push_back(kEndOfText);
  return learned;
}

}  // namespace muster
