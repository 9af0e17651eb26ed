#include "worker/data/sequence_dataset.h"

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/text_files.h"
#include "common/tokenizer/open_tokenizer.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {
absl::StatusOr<std::unique_ptr<const SequenceDataset>> SequenceDataset::Create(
    const SequenceOptions& options) {
  if (options.context < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Sequences of ", options.context, " tokens cannot be read; expected at least ",
        "1: data.sequences goes with a model that has a context, such as transformer"));
  }
  auto dataset = absl::WrapUnique(new SequenceDataset());
  MUSTER_ASSIGN_OR_RETURN(const Source source, IsTokenFileAt(options.path)
                                                   ? dataset->OpenTokens(options)
                                                   : dataset->EncodeText(options));
  const auto tokens = static_cast<int64_t>(dataset->TokenCount());
  DatasetInfo& info = dataset->info_;
  info.examples = (tokens - 1) / options.context;
  if (info.examples < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Data '", options.path, "' has ", tokens, " tokens; one example of context ",
        options.context, " needs ", options.context + 1, ": take more text or a smaller context"));
  }
  info.context = options.context;
  info.vocabulary = source.vocabulary;
  info.classes = source.vocabulary;
  info.labels_per_example = options.context;
  info.bytes_per_label = static_cast<double>(source.bytes) / static_cast<double>(tokens);
  return std::unique_ptr<const SequenceDataset>(std::move(dataset));
}

absl::StatusOr<SequenceDataset::Source> SequenceDataset::OpenTokens(
    const SequenceOptions& options) {
  if (!options.tokenizer.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.sequences.tokenizer is '", options.tokenizer, "', but '", options.path,
        "' is a token file, which has its own; leave the field out, or name the text instead"));
  }
  MUSTER_ASSIGN_OR_RETURN(file_, TokenFile::Open(options.path));
  fingerprint_ = file_->fingerprint();
  return Source{file_->tokenizer().vocabulary(), file_->source_bytes()};
}

absl::StatusOr<SequenceDataset::Source> SequenceDataset::EncodeText(
    const SequenceOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const Tokenizer> tokenizer,
                          OpenTokenizer(options.tokenizer));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileContent> files, OpenTextFiles(options.path));
  const int token_bytes = TokenBytes(tokenizer->vocabulary());
  Source source;
  source.vocabulary = tokenizer->vocabulary();
  for (const FileContent& file : files) {
    if (const std::optional<int32_t> end = tokenizer->end_of_text();
        end.has_value() && !packed_.empty()) {
      PackTokens({&*end, 1}, token_bytes, packed_);
    }
    tokenizer->Encode(file.bytes(), [&](absl::Span<const int32_t> tokens) {
      PackTokens(tokens, token_bytes, packed_);
    });
    source.bytes += file.bytes().size();
  }
  packed_.shrink_to_fit();
  TokenChunks chunks;
  chunks.Add(packed_);
  checksums_ = chunks.Finish();
  CheckedTokens::Layout layout;
  layout.packed = packed_;
  layout.token_bytes = token_bytes;
  layout.vocabulary = source.vocabulary;
  layout.checksums = {reinterpret_cast<const char*>(checksums_.data()),
                      checksums_.size() * sizeof(uint64_t)};
  encoded_ = std::make_unique<const CheckedTokens>(
      layout, absl::StrCat("the memory with the tokens of ", options.path));
  fingerprint_ =
      TokensFingerprint(tokenizer->json(), static_cast<int64_t>(encoded_->size()), checksums_);
  return source;
}

uint64_t SequenceDataset::TokenCount() const {
  return file_ != nullptr ? file_->tokens() : encoded_->size();
}

absl::Status SequenceDataset::ReadTokens(uint64_t first, uint64_t count,
                                         std::vector<int32_t>& out) const {
  return file_ != nullptr ? file_->Read(first, count, out) : encoded_->Read(first, count, out);
}

absl::Status SequenceDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  const int64_t T = info_.context;
  batch.tokens.reserve(indices.size() * T + 1);
  batch.labels.reserve(indices.size() * T);
  for (const int64_t index : indices) {
    MUSTER_RETURN_IF_ERROR(ReadTokens(index * T, T + 1, batch.tokens));
    batch.labels.insert(batch.labels.end(), batch.tokens.end() - T, batch.tokens.end());
    batch.tokens.pop_back();
  }
  return absl::OkStatus();
}

}  // namespace muster
