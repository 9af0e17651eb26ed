#include "common/tokenizer/words/word_encoder.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace muster {
namespace {

// The words met before, with their tokens.
class WordTable {
 public:
  // Returns the word's tokens; none if it is not in the table.
  std::optional<absl::Span<const int32_t>> Find(absl::string_view word) const {
    const auto found = words_.find(word);
    if (found == words_.end()) return std::nullopt;
    return absl::MakeConstSpan(tokens_).subspan(found->second.first, found->second.second);
  }

  // Keeps a word while there is room.
  void Add(absl::string_view word, absl::Span<const int32_t> tokens) {
    if (words_.size() >= kMostWords || word.size() > kLongestKept) return;
    words_.emplace(word, std::make_pair(tokens_.size(), tokens.size()));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

 private:
  static constexpr size_t kMostWords = size_t{1} << 18;
  static constexpr size_t kLongestKept = 64;

  // By word, the place of its first token and the number of its tokens.
  absl::flat_hash_map<std::string, std::pair<size_t, size_t>> words_;
  std::vector<int32_t> tokens_;
};

}  // namespace

void EncodeWords(
    const TextDivider& divider, absl::string_view text, TextStart start,
    absl::FunctionRef<void(absl::string_view word, std::vector<int32_t>& tokens)> encode_word,
    absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) {
  constexpr size_t kPending = 4096;
  WordTable words;
  std::vector<int32_t> fresh;
  std::vector<int32_t> pending;
  if (start == TextStart::kDocument) pending = divider.rules().before_document;
  divider.ForEachPiece(text, start, [&](const TextDivider::Piece& piece) {
    if (piece.added != nullptr) {
      pending.push_back(piece.added->id);
      return;
    }
    std::optional<absl::Span<const int32_t>> tokens = words.Find(piece.text);
    if (!tokens.has_value()) {
      encode_word(piece.text, fresh);
      words.Add(piece.text, fresh);
      tokens = fresh;
    }
    pending.insert(pending.end(), tokens->begin(), tokens->end());
    if (pending.size() >= kPending) {
      sink(pending);
      pending.clear();
    }
  });
  if (!pending.empty()) sink(pending);
}

}  // namespace muster
