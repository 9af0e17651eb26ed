#ifndef MUSTER_WORKER_DATA_DATASETS_SEQUENCE_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_SEQUENCE_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/documents/source_options.h"
#include "common/packing/whole_documents.h"
#include "common/tokenizer/files/token_array.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/tokenizer.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/prepared/prepared_folder.h"

namespace muster {

struct SequenceOptions {
  // A text file, a folder of them, or a token file. If `preparing` is set, any source of documents.
  std::string path;
  // Tokenizer of a text (see OpenTokenizer). REQUIRES: empty for a token file, which has its own.
  std::string tokenizer;
  // Tokens per example; at least 1.
  int64_t context = 0;
  // Says whether the documents that share an example see one another (v1::SequenceData::Packing).
  enum class Packing { kAcrossDocuments, kWithinDocuments, kWholeDocuments };
  Packing packing = Packing::kAcrossDocuments;
  // Makes the token file of a source that is neither text nor a token file.
  const PreparedFolder* preparing = nullptr;
  SourceArguments documents;
};

// Sequences of tokens of language. Documents follow one another, with an end-of-text between them
// if the tokenizer has one, and are divided into windows of `context` tokens. Example i has the
// tokens [i · context, (i + 1) · context); each token's label is the token that follows, or -1 if a
// token file says that it is not to be learned. Tokens at the end that fill no window are not used,
// so every label exists.
//
// Within documents, examples have Batch::positions, and the last token of a document, which is its
// end-of-text, has no label. The part of a document with which an example begins is a document of
// its own. A text file is a document; a token file says where documents end, or else one ends with
// each end-of-text.
//
// With whole documents, an example is a window of common/packing/whole_documents.h instead, whose
// documents do not see one another either. Tokens that fill it up are the end-of-text, or else 0:
// documents of one token each, without a label.
//
// Text is encoded when it is opened, and held in 1, 2 or 4 bytes per token; a token file is mapped.
// Another source becomes a token file first (worker/data/prepared), which is then the data.
// A text and its token file are the same data, with the same fingerprint; within documents, unless
// the token file does not say where they end.
class SequenceDataset final : public Dataset {
 public:
  // NotFound: the data or the tokenizer is missing. InvalidArgument: there are too few tokens for
  // one example; a file is damaged, of a newer format, of an unknown kind, or no text
  // (common/files/check_is_text.h); a token file came with a tokenizer or lies in a folder of text;
  // or `context` is less than 1, or documents are to be whole and the token file does not say where
  // they end. DataLoss: a token file is damaged. With `preparing` also errors of
  // PreparedFolder::Prepare.
  static absl::StatusOr<std::unique_ptr<const SequenceDataset>> Create(
      const SequenceOptions& options);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  // DataLoss: a part of the token file is damaged.
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  SequenceDataset() = default;

  // Each of these reads the data and sets the fingerprint.
  absl::Status EncodeText(const std::string& path, const Tokenizer& tokenizer);
  absl::Status OpenTokens(const SequenceOptions& options);
  // Makes the windows of whole documents.
  absl::Status DivideWhole(const SequenceOptions& options);
  absl::Status PrepareTokens(const SequenceOptions& options);
  // Makes a token file the data.
  void UseTokens(const TokenFile& file);
  uint64_t TokenCount() const;
  absl::Status ReadTokens(uint64_t first, uint64_t count, std::vector<int32_t>& out) const;
  // Appends the tokens [first, first + count) and, as labels, those after each of them that are to
  // be learned.
  absl::Status ReadLabelled(uint64_t first, int64_t count, Batch& batch) const;
  // Adds the positions of the batch's last example, and takes labels of other documents from it.
  void KeepWithinDocuments(uint64_t first, Batch& batch) const;
  // Appends a window of whole documents, using `pieces` as memory.
  absl::Status ReadWindow(int64_t window, std::vector<WholeDocuments::Piece>& pieces,
                          Batch& batch) const;

  // All const after Create. Holds either a token file, which was named or prepared, or tokens
  // encoded here and their checksums.
  std::unique_ptr<const TokenFile> named_;
  std::unique_ptr<const PreparedFile> prepared_;
  const TokenFile* file_ = nullptr;
  std::string packed_;
  std::vector<uint64_t> checksums_;
  std::unique_ptr<const CheckedTokens> encoded_;
  SequenceOptions::Packing packing_ = SequenceOptions::Packing::kAcrossDocuments;
  // TokenFile::document_ends, of the file or of the texts encoded here (`text_ends_`).
  absl::Span<const uint64_t> document_ends_;
  std::vector<uint64_t> text_ends_;
  // Null unless documents are whole.
  std::unique_ptr<const WholeDocuments> windows_;
  // The token that ends documents.
  std::optional<int32_t> end_of_text_;
  DatasetInfo info_;
  uint64_t fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_SEQUENCE_DATASET_H_
