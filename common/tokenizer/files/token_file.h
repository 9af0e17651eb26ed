#ifndef MUSTER_COMMON_TOKENIZER_FILES_TOKEN_FILE_H_
#define MUSTER_COMMON_TOKENIZER_FILES_TOKEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/files/file_content.h"
#include "common/files/output_file.h"
#include "common/files/spilled_bytes.h"
#include "common/tokenizer/files/token_array.h"
#include "common/tokenizer/files/token_file_progress.h"
#include "common/tokenizer/files/trained_bits.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// A file of tokens, which training maps instead of reading it: of any size, with the tokenizer in
// it. Little-endian, format version 2:
//
//   header        128 bytes: magic "MUSTERTK", u32 version, u32 bytes of a token (1, 2 or 4), u64
//                 tokens, u64 bytes of the source text, u64 bytes of the tokenizer, u64 chunks, u64
//                 fingerprint, u64 documents, u64 XXH3 of the document ends, u64 chunks of trained
//                 bits, zeros, and at 120 the XXH3 of all before
//   tokenizer     its tokenizer.json (none: bytes), then zeros up to a multiple of 64
//   tokens        one after another, then zeros up to a multiple of 8
//   checksums     u64 XXH3 of each chunk of kTokenChunkBytes of the tokens (token_array.h)
//   document ends u64 per document: the number of tokens in it and all before it
//   trained bits  of each token, if some token is not to be learned (trained_bits.h), then zeros up
//                 to a multiple of 8, then their checksums as those of the tokens
//
// The fingerprint is that of the tokenizer and of the tokens' checksums, with the trained bits'
// checksums if there are any. Version 1 ended after the tokens' checksums, and is read, too.
//
// A damaged chunk is noticed when its first token or bit is read, everything else when the file is
// opened.

// Returns true if the bytes begin like a token file.
bool IsTokenFile(absl::string_view bytes);

// Returns true if the file at this path begins like a token file; false if it cannot be read.
bool IsTokenFileAt(const std::string& path);

struct TokenFileSummary {
  uint64_t tokens = 0;
  uint64_t source_bytes = 0;
  int token_bytes = 0;
  uint64_t documents = 0;
  uint64_t trained_tokens = 0;
  // Tokens that a writer had made which was stopped.
  uint64_t kept_tokens = 0;
};

// Writes a token file as a stream, with only one chunk in memory. The file gets its name when it is
// complete (common/files/output_file.h, whose errors these are). Not thread-safe.
class TokenFileWriter {
 public:
  // The tokenizer must outlive the writer.
  static absl::StatusOr<std::unique_ptr<TokenFileWriter>> Create(const std::string& out,
                                                                 const Tokenizer& tokenizer,
                                                                 Replace replace = Replace::kNever);

  // Goes on with a file that another writer did not complete, or begins one. Files beside it hold
  // it meanwhile: OUT.partial, OUT.ends.partial, OUT.trained.partial and OUT.progress. They stay
  // when this object or its process ends, and are gone after Finish or Remove. `source` tells what
  // the file is made of, and how: a file that was begun of another source begins anew.
  //
  // FailedPrecondition: OUT.partial is another process's or nothing that a writer began.
  static absl::StatusOr<std::unique_ptr<TokenFileWriter>> GoOn(const std::string& out,
                                                               const Tokenizer& tokenizer,
                                                               Replace replace,
                                                               const std::string& source);
  // Returns what the last Keep before GoOn was given; empty: the file begins anew.
  const std::string& position() const { return position_; }

  // Makes all that was added durable, with the position in the source behind it: a writer that goes
  // on does so from here. REQUIRES: GoOn made the writer.
  absl::Status Keep(const std::string& position);

  // Removes the files that GoOn began. REQUIRES: as Keep.
  void Remove();

  // Returns how many bytes the files beside OUT have.
  uint64_t bytes() const { return written_ + pending_.size() + ends_.size() + packed_.size(); }

  // Encodes a document and appends it, all to be learned, with an end-of-text after the text before
  // it. The last text of a file has none, as in a folder of texts that a job reads itself.
  absl::Status AddDocument(absl::string_view text);

  // Appends tokens to the document at the end of the file, and EndDocument begins another one.
  // They stand for `source_bytes` of text. A document without tokens is none. Nothing is put
  // between such documents; they bring their ends-of-text.
  // REQUIRES: the tokens lie in the vocabulary.
  absl::Status AddTokens(absl::Span<const int32_t> tokens, Trained trained, uint64_t source_bytes);
  absl::Status EndDocument();
  // Ends a document as AddDocument does: tokens that were added before are the text of a file.
  void EndText() { after_text_ = true; }

  // Makes the file durable and visible. InvalidArgument: nothing was added.
  absl::StatusOr<TokenFileSummary> Finish();

 private:
  TokenFileWriter(std::string path, const Tokenizer& tokenizer, std::unique_ptr<OutputFile> file);

  // Opens the files of GoOn, and takes up what they hold by this progress, if there is one.
  static absl::StatusOr<std::unique_ptr<TokenFileWriter>> OpenKept(
      const std::string& out, const Tokenizer& tokenizer, Replace replace,
      const std::optional<TokenFileProgress>& progress);
  absl::Status Restore(const TokenFileProgress& progress);
  absl::Status WriteHead();
  std::string progress_path() const { return path_ + ".progress"; }
  absl::Status WriteTokens(absl::Span<const int32_t> tokens);
  // Ends a text that another document follows.
  absl::Status SeparateText();
  // Ends the document that has the tokens since the last end, if there are any.
  absl::Status EndTokens();
  absl::Status WriteBytes(absl::string_view bytes);

  const std::string path_;
  const Tokenizer& tokenizer_;
  const std::unique_ptr<OutputFile> file_;
  // True after a text, which has no end yet.
  bool after_text_ = false;
  uint64_t source_bytes_ = 0;
  TokenChunks chunks_;
  std::string pending_;
  uint64_t tokens_ = 0;
  uint64_t last_end_ = 0;
  SpilledBytes ends_;
  TrainedBits trained_;
  SpilledBytes& packed_;
  // Bytes of the file, without `pending_`.
  uint64_t written_ = 0;
  // GoOn sets these; `kept_` is const after it.
  bool kept_ = false;
  std::string source_;
  std::string position_;
  uint64_t kept_tokens_ = 0;
};

// A token file, mapped if it is large. Thread-safe.
class TokenFile {
 public:
  // NotFound: there is no such file. InvalidArgument: the file is not a token file.
  // FailedPrecondition: the file has a newer format. DataLoss: the file is damaged, or shorter or
  // longer than it says. All name the path.
  static absl::StatusOr<std::unique_ptr<const TokenFile>> Open(
      const std::string& path, const FileContentOptions& options = {});

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  uint64_t tokens() const { return tokens_->size(); }
  uint64_t source_bytes() const { return source_bytes_; }
  // Equal for equal tokens of equal tokenizers with equal trained bits, however they are divided
  // into documents and whichever version the file has.
  uint64_t fingerprint() const { return fingerprint_; }

  // Document i has the tokens [document_ends()[i - 1], document_ends()[i]), at least one; document
  // 0 begins at 0, and the last one ends at tokens(). Empty: the file does not tell (version 1).
  absl::Span<const uint64_t> document_ends() const { return document_ends_; }
  // Equal for equal document_ends(); 0 without them.
  uint64_t documents_fingerprint() const { return documents_fingerprint_; }

  // False: all tokens are to be learned.
  bool has_trained_bits() const { return trained_ != nullptr; }

  // Appends tokens [first, first + count) to `out`. DataLoss: a chunk of them is damaged, or has a
  // token that the tokenizer does not know. REQUIRES: the range lies in the file.
  absl::Status Read(uint64_t first, uint64_t count, std::vector<int32_t>& out) const;

  // Appends 1 for each of these tokens that a model is to learn to predict, 0 for others.
  // DataLoss: a chunk of the bits is damaged. REQUIRES: the range lies in the file.
  absl::Status ReadTrained(uint64_t first, uint64_t count, std::vector<uint8_t>& out) const;

 private:
  TokenFile(std::string path, FileContent content);

  absl::Status Parse();

  const std::string path_;
  const FileContent content_;
  // Const after Open.
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const CheckedTokens> tokens_;
  std::unique_ptr<const CheckedBits> trained_;
  absl::Span<const uint64_t> document_ends_;
  uint64_t source_bytes_ = 0;
  uint64_t fingerprint_ = 0;
  uint64_t documents_fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FILES_TOKEN_FILE_H_
