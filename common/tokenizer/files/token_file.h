#ifndef MUSTER_COMMON_TOKENIZER_FILES_TOKEN_FILE_H_
#define MUSTER_COMMON_TOKENIZER_FILES_TOKEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/files/file_content.h"
#include "common/files/output_file.h"
#include "common/tokenizer/files/token_array.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// A file of tokens, which training maps instead of reading it: of any size, with the tokenizer in
// it. Little-endian, format version 1:
//
//   header     128 bytes: magic "MUSTERTK", u32 version, u32 bytes of a token (1, 2 or 4), u64
//              tokens, u64 bytes of the source text, u64 bytes of the tokenizer, u64 chunks, u64
//              fingerprint of tokenizer and checksums, zeros, and at 120 the XXH3 of all before
//   tokenizer  its tokenizer.json (none: bytes), then zeros up to a multiple of 64
//   tokens     one after another, then zeros up to a multiple of 8
//   checksums  u64 XXH3 of each chunk of kTokenChunkBytes of the tokens (token_array.h)
//
// A damaged chunk is noticed when its first token is read, everything else when it is opened.

// Returns true if the bytes begin like a token file.
bool IsTokenFile(absl::string_view bytes);

// Returns true if the file at this path begins like a token file; false if it cannot be read.
bool IsTokenFileAt(const std::string& path);

struct TokenFileSummary {
  uint64_t tokens = 0;
  uint64_t source_bytes = 0;
  int token_bytes = 0;
};

// Writes a token file as a stream, with only one chunk in memory. The file gets its name when it is
// complete (common/files/output_file.h, whose errors these are). Not thread-safe.
class TokenFileWriter {
 public:
  // The tokenizer must outlive the writer.
  static absl::StatusOr<std::unique_ptr<TokenFileWriter>> Create(const std::string& out,
                                                                 const Tokenizer& tokenizer,
                                                                 Replace replace = Replace::kNever);

  // Encodes a document and appends it, with an end-of-text after the document before it.
  absl::Status AddDocument(absl::string_view text);

  // Makes the file durable and visible. InvalidArgument: nothing was added.
  absl::StatusOr<TokenFileSummary> Finish();

 private:
  TokenFileWriter(std::string path, const Tokenizer& tokenizer, std::unique_ptr<OutputFile> file);

  absl::Status WriteTokens(absl::Span<const int32_t> tokens);
  absl::Status WriteBytes(absl::string_view bytes);

  const std::string path_;
  const Tokenizer& tokenizer_;
  const std::unique_ptr<OutputFile> file_;
  bool empty_ = true;
  uint64_t source_bytes_ = 0;
  TokenChunks chunks_;
  std::string pending_;
};

// A token file, mapped if it is large. Thread-safe.
class TokenFile {
 public:
  // NotFound: there is no such file. InvalidArgument: the file is not a token file.
  // FailedPrecondition: the file has a newer format. DataLoss: the file is damaged, or shorter or
  // longer than it says. All name the path.
  static absl::StatusOr<std::unique_ptr<const TokenFile>> Open(const std::string& path);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  uint64_t tokens() const { return tokens_->size(); }
  uint64_t source_bytes() const { return source_bytes_; }
  // Equal for equal tokens of equal tokenizers.
  uint64_t fingerprint() const { return fingerprint_; }

  // Appends tokens [first, first + count) to `out`. DataLoss: a chunk of them is damaged, or has a
  // token that the tokenizer does not know. REQUIRES: the range lies in the file.
  absl::Status Read(uint64_t first, uint64_t count, std::vector<int32_t>& out) const;

 private:
  TokenFile(std::string path, FileContent content);

  absl::Status Parse();

  const std::string path_;
  const FileContent content_;
  // Const after Open.
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const CheckedTokens> tokens_;
  uint64_t source_bytes_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_TOKEN_FILE_H_
