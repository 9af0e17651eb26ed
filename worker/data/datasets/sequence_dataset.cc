#include "worker/data/datasets/sequence_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/text_files.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {
namespace {

// Returns the bytes of each token; 0 for those that stand between documents, not in them.
std::vector<int32_t> BytesByToken(const Tokenizer& tokenizer) {
  std::vector<int32_t> bytes(tokenizer.vocabulary());
  for (int32_t token = 0; token < tokenizer.vocabulary(); ++token) {
    bytes[token] = IsBetweenDocuments(tokenizer, token)
                       ? 0
                       : static_cast<int32_t>(tokenizer.BytesOf(token).size());
  }
  return bytes;
}

// Returns the fingerprint of data of which it matters where documents end.
uint64_t WithDocuments(uint64_t tokens, uint64_t documents, SequenceOptions::Packing packing) {
  if (packing == SequenceOptions::Packing::kAcrossDocuments) return tokens;
  FingerprintStream fingerprint;
  fingerprint.Add(&tokens, sizeof(tokens));
  fingerprint.Add(&documents, sizeof(documents));
  const uint64_t within = fingerprint.Finish();
  return packing == SequenceOptions::Packing::kWithinDocuments ? within : MixBits(within);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SequenceDataset>> SequenceDataset::Create(
    const SequenceOptions& options) {
  if (options.context < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Sequences of ", options.context, " tokens cannot be read; expected at least ",
        "1: data.sequences goes with a model that has a context, such as transformer"));
  }
  auto dataset = absl::WrapUnique(new SequenceDataset());
  dataset->packing_ = options.packing;
  std::unique_ptr<const Tokenizer> of_text;
  if (IsTokenFileAt(options.path)) {
    MUSTER_RETURN_IF_ERROR(dataset->OpenTokens(options));
  } else if (options.preparing != nullptr) {
    MUSTER_RETURN_IF_ERROR(dataset->PrepareTokens(options));
  } else {
    MUSTER_ASSIGN_OR_RETURN(of_text, OpenTokenizer(options.tokenizer));
    MUSTER_RETURN_IF_ERROR(dataset->EncodeText(options.path, *of_text));
  }
  const Tokenizer* const tokenizer =
      of_text != nullptr ? of_text.get() : &dataset->file_->tokenizer();
  dataset->end_of_text_ = tokenizer->end_of_text();
  const auto tokens = static_cast<int64_t>(dataset->TokenCount());
  DatasetInfo& info = dataset->info_;
  info.examples = (tokens - 1) / options.context;
  if (options.packing == SequenceOptions::Packing::kWholeDocuments) {
    MUSTER_RETURN_IF_ERROR(dataset->DivideWhole(options));
    info.examples = dataset->windows_->windows();
  }
  if (info.examples < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Data '", options.path, "' has ", tokens, " tokens; one example of context ",
        options.context, " needs ", options.context + 1, ": take more text or a smaller context"));
  }
  info.context = options.context;
  info.vocabulary = tokenizer->vocabulary();
  info.classes = tokenizer->vocabulary();
  info.labels_per_example = options.context;
  info.label_bytes = BytesByToken(*tokenizer);
  const std::string& named = dataset->named_ != nullptr ? options.path : options.tokenizer;
  info.tokenizer = {tokenizer->fingerprint(), named.empty() ? "bytes" : named};
  return std::unique_ptr<const SequenceDataset>(std::move(dataset));
}

absl::Status SequenceDataset::OpenTokens(const SequenceOptions& options) {
  if (!options.tokenizer.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.sequences.tokenizer is '", options.tokenizer, "', but '", options.path,
        "' is a token file, which has its own; leave the field out, or name the text instead"));
  }
  MUSTER_ASSIGN_OR_RETURN(named_, TokenFile::Open(options.path));
  UseTokens(*named_);
  return absl::OkStatus();
}

absl::Status SequenceDataset::PrepareTokens(const SequenceOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(
      prepared_, options.preparing->Prepare({options.path, options.tokenizer, options.documents}));
  UseTokens(prepared_->file());
  return absl::OkStatus();
}

void SequenceDataset::UseTokens(const TokenFile& file) {
  file_ = &file;
  document_ends_ = file.document_ends();
  fingerprint_ = WithDocuments(file.fingerprint(), file.documents_fingerprint(), packing_);
}

absl::Status SequenceDataset::EncodeText(const std::string& path, const Tokenizer& tokenizer) {
  const int token_bytes = TokenBytes(tokenizer.vocabulary());
  const std::optional<int32_t> end = tokenizer.end_of_text();
  const auto end_document = [&] {
    const uint64_t tokens = packed_.size() / token_bytes;
    if (tokens > (text_ends_.empty() ? 0 : text_ends_.back())) text_ends_.push_back(tokens);
  };
  MUSTER_RETURN_IF_ERROR(ForEachTextFile(path, [&](const std::string&, FileContent file) {
    if (end.has_value() && !packed_.empty()) PackTokens({&*end, 1}, token_bytes, packed_);
    end_document();
    tokenizer.Encode(file.bytes(), TextStart::kDocument, [&](absl::Span<const int32_t> tokens) {
      PackTokens(tokens, token_bytes, packed_);
    });
    return absl::OkStatus();
  }));
  end_document();
  document_ends_ = text_ends_;
  packed_.shrink_to_fit();
  TokenChunks chunks;
  chunks.Add(packed_);
  checksums_ = chunks.Finish();
  CheckedTokens::Layout layout;
  layout.packed = packed_;
  layout.token_bytes = token_bytes;
  layout.vocabulary = tokenizer.vocabulary();
  layout.checksums = {reinterpret_cast<const char*>(checksums_.data()),
                      checksums_.size() * sizeof(uint64_t)};
  encoded_ = std::make_unique<const CheckedTokens>(
      layout, absl::StrCat("the memory with the tokens of ", path));
  fingerprint_ = WithDocuments(
      TokensFingerprint(tokenizer.json(), static_cast<int64_t>(encoded_->size()), checksums_),
      Fingerprint(
          {reinterpret_cast<const char*>(text_ends_.data()), text_ends_.size() * sizeof(uint64_t)}),
      packing_);
  return absl::OkStatus();
}

uint64_t SequenceDataset::TokenCount() const {
  return file_ != nullptr ? file_->tokens() : encoded_->size();
}

absl::Status SequenceDataset::ReadTokens(uint64_t first, uint64_t count,
                                         std::vector<int32_t>& out) const {
  return file_ != nullptr ? file_->Read(first, count, out) : encoded_->Read(first, count, out);
}

absl::Status SequenceDataset::DivideWhole(const SequenceOptions& options) {
  if (document_ends_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "The token file '", options.path, "' does not say where documents end, as data.sequences.",
        "packing WHOLE_DOCUMENTS needs it to; make the file anew with `muster data tokenize`, or ",
        "take WITHIN_DOCUMENTS"));
  }
  MUSTER_ASSIGN_OR_RETURN(windows_, WholeDocuments::Create(document_ends_, options.context));
  if (windows_->windows() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("No document of '", options.path,
                                                 "' has two tokens: there is nothing to learn; ",
                                                 "take more text, or packing WITHIN_DOCUMENTS"));
}

absl::Status SequenceDataset::ReadLabelled(uint64_t first, int64_t count, Batch& batch) const {
  MUSTER_RETURN_IF_ERROR(ReadTokens(first, count + 1, batch.tokens));
  batch.labels.insert(batch.labels.end(), batch.tokens.end() - count, batch.tokens.end());
  batch.tokens.pop_back();
  if (file_ == nullptr || !file_->has_trained_bits()) return absl::OkStatus();
  std::vector<uint8_t> trained;
  MUSTER_RETURN_IF_ERROR(file_->ReadTrained(first + 1, count, trained));
  int32_t* const labels = batch.labels.data() + batch.labels.size() - count;
  for (int64_t t = 0; t < count; ++t) {
    if (trained[t] == 0) labels[t] = -1;
  }
  return absl::OkStatus();
}

absl::Status SequenceDataset::ReadWindow(int64_t window, std::vector<WholeDocuments::Piece>& pieces,
                                         Batch& batch) const {
  windows_->PiecesOf(window, pieces);
  int64_t padding = info_.context;
  for (const WholeDocuments::Piece& piece : pieces) {
    MUSTER_RETURN_IF_ERROR(ReadLabelled(piece.first, piece.count, batch));
    for (int32_t position = 0; position < piece.count; ++position) {
      batch.positions.push_back(position);
    }
    padding -= piece.count;
  }
  batch.tokens.insert(batch.tokens.end(), padding, end_of_text_.value_or(0));
  batch.labels.insert(batch.labels.end(), padding, -1);
  batch.positions.insert(batch.positions.end(), padding, 0);
  return absl::OkStatus();
}

void SequenceDataset::KeepWithinDocuments(uint64_t first, Batch& batch) const {
  const int64_t T = info_.context;
  const int32_t* const tokens = batch.tokens.data() + batch.tokens.size() - T;
  int32_t* const labels = batch.labels.data() + batch.labels.size() - T;
  const uint64_t* end = std::upper_bound(document_ends_.begin(), document_ends_.end(), first);
  int32_t position = 0;
  for (int64_t t = 0; t < T; ++t) {
    batch.positions.push_back(position++);
    const bool ends = document_ends_.empty() ? end_of_text_ == tokens[t] : *end == first + t + 1;
    if (!ends) continue;
    labels[t] = -1;
    position = 0;
    if (!document_ends_.empty()) ++end;
  }
}

absl::Status SequenceDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  const int64_t T = info_.context;
  batch.tokens.reserve(indices.size() * T + 1);
  batch.labels.reserve(indices.size() * T);
  std::vector<WholeDocuments::Piece> pieces;
  for (const int64_t index : indices) {
    if (windows_ != nullptr) {
      MUSTER_RETURN_IF_ERROR(ReadWindow(index, pieces, batch));
      continue;
    }
    MUSTER_RETURN_IF_ERROR(ReadLabelled(index * T, T, batch));
    if (packing_ == SequenceOptions::Packing::kWithinDocuments) {
      KeepWithinDocuments(index * T, batch);
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
