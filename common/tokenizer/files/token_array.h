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

// Tokens are kept little-endian in as few bytes as their vocabulary needs.
int TokenBytes(int64_t vocabulary);

// Appends tokens in that form. REQUIRES: each fits.
void PackTokens(absl::Span<const int32_t> tokens, int token_bytes, std::string& packed);

// Packed tokens are checked by chunks of this size, the last one shorter.
inline constexpr uint64_t kTokenChunkBytes = uint64_t{1} << 20;

// The checksums of packed tokens that come in pieces. Not thread-safe.
class TokenChunks {
 public:
  void Add(absl::string_view packed);

  uint64_t bytes() const { return bytes_; }

  // The XXH3 of each chunk. Nothing may be added afterwards.
  std::vector<uint64_t> Finish();

 private:
  uint64_t bytes_ = 0;
  std::unique_ptr<FingerprintStream> chunk_;
  std::vector<uint64_t> checksums_;
};

// What identifies tokens: the tokenizer and the checksums of all chunks.
uint64_t TokensFingerprint(absl::string_view tokenizer_json, int64_t tokens,
                           absl::Span<const uint64_t> checksums);

// Packed tokens, each chunk of which is checked before its first token is handed out. Borrows all
// bytes. Thread-safe: threads that meet in a chunk may both check it.
class CheckedTokens {
 public:
  struct Layout {
    absl::string_view packed;
    int token_bytes = 1;
    int64_t vocabulary = 0;
    // Little-endian u64 for each chunk.
    absl::string_view checksums;
  };

  // `origin` is for messages.
  CheckedTokens(Layout layout, std::string origin);

  uint64_t size() const { return layout_.packed.size() / layout_.token_bytes; }

  // Appends tokens [first, first + count) to `out`. DataLoss, naming origin and place: a chunk is
  // damaged, or has a token outside of the vocabulary. REQUIRES: the range lies within size().
  absl::Status Read(uint64_t first, uint64_t count, std::vector<int32_t>& out) const;

 private:
  absl::Status Check(uint64_t chunk) const;

  const Layout layout_;
  const std::string origin_;
  // For each chunk whether it was found whole.
  mutable std::vector<std::atomic<bool>> checked_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_TOKEN_ARRAY_H_
