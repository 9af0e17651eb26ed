#ifndef MUSTER_COMMON_TOKENIZER_WORDS_PRECOMPILED_MAP_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_PRECOMPILED_MAP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// The table by which SentencePiece normalizes texts: at each place the longest text of the table is
// replaced by what the table says. Immutable, so thread-safe.
//
// The bytes are, little-endian: the size of the trie in bytes (u32), the trie, and the texts that
// replace, each with a zero behind it. The trie is a double array (Aoe 1989): unit i of 32 bits has
// the byte by which it is reached (bits 0 to 7), whether a text ends there (bit 8), and how far
// away its successors are (bits 10 to 30, times 256 if bit 9 is set): that for a byte is unit
// i ^ distance ^ byte. Where a text ends, the successor for byte 0 holds the place of what replaces
// it (bits 0 to 30).
class PrecompiledMap {
 public:
  // InvalidArgument: the bytes are no such table.
  static absl::StatusOr<std::shared_ptr<const PrecompiledMap>> Create(absl::string_view bytes);

  // Appends the text as the table leaves it, until there are more than `most` bytes. Bytes that are
  // not UTF-8 stay as they are.
  void Apply(absl::string_view text, size_t most, std::string& out) const;

 private:
  PrecompiledMap() = default;

  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_PRECOMPILED_MAP_H_
