#ifndef MUSTER_COMMON_TOKENIZER_WORDS_ADDED_TOKEN_FINDER_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_ADDED_TOKEN_FINDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace muster {

// A token that is found in the text as such, before the text is divided into words.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  // Kept for other readers, which leave a special token out when they decode.
  bool special = true;
  // It is looked for in the text as the normalizer leaves it, not before.
  bool normalized = false;
  // White space before it, or behind it, belongs to it.
  bool takes_left = false;
  bool takes_right = false;
};

// Finds added tokens in texts: the first one in the text, of several that begin there the longest
// one. Their contents are in a trie, so a place costs as many steps as the text there agrees with
// some content. Immutable, so thread-safe.
class AddedTokenFinder {
 public:
  struct Found {
    const AddedToken* token = nullptr;
    // In the text, with the white space that the token takes.
    size_t begin = 0;
    size_t end = 0;
  };

  AddedTokenFinder() { roots_.fill(kNone); }

  // Finds this token, under this content, which is not empty. The token must outlive this object.
  void Add(const AddedToken& token, absl::string_view content);

  bool empty() const { return nodes_.empty(); }

  // Returns the first token that begins at `from` or behind it; a null one if there is none. What a
  // token takes on its left begins at `from` at the earliest.
  Found Next(absl::string_view text, size_t from) const;

 private:
  static constexpr int32_t kNone = -1;

  struct Node {
    const AddedToken* token = nullptr;
    // The next byte and its node.
    absl::flat_hash_map<char, int32_t> next;
  };

  // Nodes of first bytes.
  std::array<int32_t, 256> roots_;
  std::vector<Node> nodes_;
  // The number of different first bytes, and the last one that was added: most tokenizers have only
  // "<".
  int first_bytes_ = 0;
  char first_byte_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_ADDED_TOKEN_FINDER_H_
