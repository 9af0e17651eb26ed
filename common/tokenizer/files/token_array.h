#ifndef MUSTER_COMMON_TOKENIZER_FILES_TOKEN_ARRAY_H_
#define MUSTER_COMMON_TOKENIZER_FILES_TOKEN_ARRAY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/fingerprint.h"

namespace muster {

// Returns the bytes of a packed token: as few as the vocabulary needs, little-endian.
int TokenBytes(int64_t vocabulary);

// Appends tokens in packed form. REQUIRES: each fits.
void PackTokens(absl::Span<const int32_t> tokens, int token_bytes, std::string& packed);

// Size of the chunks by which packed tokens are checked; the last chunk may be shorter.
inline constexpr uint64_t kTokenChunkBytes = uint64_t{1} << 20;

// Computes the checksums of packed tokens that are added in parts. Not thread-safe.
class TokenChunks {
 public:
  void Add(absl::string_view packed);

  uint64_t bytes() const { return bytes_; }

  // Returns the XXH3 of each chunk that is complete, and of the bytes after these.
  const std::vector<uint64_t>& complete() const { return checksums_; }
  uint64_t rest() const { return chunk_ == nullptr ? 0 : chunk_->Finish(); }
  // Goes on behind complete chunks. REQUIRES: nothing was added.
  void Restore(std::vector<uint64_t> complete);

  // Returns the XXH3 of each chunk. Nothing may be added afterwards.
  std::vector<uint64_t> Finish();

 private:
  uint64_t bytes_ = 0;
  std::unique_ptr<FingerprintStream> chunk_;
  std::vector<uint64_t> checksums_;
};

// Returns a fingerprint of tokens: of the tokenizer and the checksums of all chunks.
uint64_t TokensFingerprint(absl::string_view tokenizer_json, int64_t tokens,
                           absl::Span<const uint64_t> checksums);

// Compares a chunk with its checksum, of which `checksums` has a little-endian u64 per chunk.
// DataLoss: they differ. The message has `origin` and the tokens [first, last) that the chunk
// is about.
absl::Status CheckChunk(absl::string_view bytes, uint64_t chunk, absl::string_view checksums,
                        const std::string& origin, uint64_t first, uint64_t last);

// Packed tokens, each chunk of which is checked before its first token is read. Borrows all bytes.
// Thread-safe: threads that read one chunk at the same time may both check it.
class CheckedTokens {
 public:
  struct Layout {
    absl::string_view packed;
    int token_bytes = 1;
    int64_t vocabulary = 0;
    // A little-endian u64 per chunk.
    absl::string_view checksums;
  };

  // `origin` names the tokens in messages.
  CheckedTokens(Layout layout, std::string origin);

  uint64_t size() const { return layout_.packed.size() / layout_.token_bytes; }

  // Appends tokens [first, first + count) to `out`. DataLoss, naming origin and place: a chunk is
  // damaged, or has a token outside of the vocabulary. REQUIRES: the range lies within size().
  absl::Status Read(uint64_t first, uint64_t count, std::vector<int32_t>& out) const;

 private:
  absl::Status Check(uint64_t chunk) const;

  const Layout layout_;
  const std::string origin_;
  // True, per chunk, once the chunk was found whole.
  mutable std::vector<std::atomic<bool>> checked_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_TOKEN_ARRAY_H_
