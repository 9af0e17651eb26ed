#ifndef MUSTER_WORKER_DATA_DATASETS_SEQUENCE_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_SEQUENCE_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tokenizer/files/token_array.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/tokenizer.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"

namespace muster {

struct SequenceOptions {
  // A text file, a folder of them, or a token file.
  std::string path;
  // For text: as OpenTokenizer names it. REQUIRES: empty for a token file, which has its own.
  std::string tokenizer;
  // Tokens of an example. At least 1.
  int64_t context = 0;
};

// Language as sequences: documents follow one another, an end-of-text (where the tokenizer has one)
// between them, and are divided into windows of `context` tokens. Example i has tokens
// [i · context, (i + 1) · context) and as their labels those that follow each. What is left at the
// end and fills no window is not used, so every label is there.
//
// Text is encoded when it is opened and held packed, in 1, 2 or 4 bytes a token; a token file is
// mapped. A text and a token file of it are the same data, with the same fingerprint.
class SequenceDataset final : public Dataset {
 public:
  // NotFound: the data or the tokenizer is missing. InvalidArgument: there are too few tokens for
  // one example, a file is damaged, of a newer format or of a kind that is not understood, or is no
  // text (common/files/check_is_text.h), a token file came with a tokenizer or lies in a folder of
  // text, or `context` is less than 1.
  // DataLoss: a token file is damaged.
  static absl::StatusOr<std::unique_ptr<const SequenceDataset>> Create(
      const SequenceOptions& options);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  // DataLoss: a part of the token file is damaged.
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  SequenceDataset() = default;

  // Each reads the data and sets the fingerprint.
  absl::Status EncodeText(const std::string& path, const Tokenizer& tokenizer);
  absl::Status OpenTokens(const SequenceOptions& options);
  uint64_t TokenCount() const;
  absl::Status ReadTokens(uint64_t first, uint64_t count, std::vector<int32_t>& out) const;

  // All const after Create. Either a token file, or tokens encoded here and their checksums.
  std::unique_ptr<const TokenFile> file_;
  std::string packed_;
  std::vector<uint64_t> checksums_;
  std::unique_ptr<const CheckedTokens> encoded_;
  DatasetInfo info_;
  uint64_t fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_SEQUENCE_DATASET_H_
