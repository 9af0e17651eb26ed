#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/partition_file.h"
#include "proto/checkpoint.pb.h"

namespace muster {

static_assert(std::endian::native == std::endian::little, "stored numbers are little-endian");

PartitionFileWriter::PartitionFileWriter(std::unique_ptr<StorageWriter> file, std::string uri,
                                         std::string name,
                                         std::unique_ptr<v1::PartitionFileHeader> header)
    : file_(std::move(file)),
      uri_(std::move(uri)),
      name_(std::move(name)),
      header_(std::move(header)) {}

PartitionFileWriter::~PartitionFileWriter() = default;

absl::StatusOr<std::unique_ptr<PartitionFileWriter>> PartitionFileWriter::Create(
    CheckpointStorage& storage, absl::string_view folder, absl::string_view name,
    const v1::PartitionFileHeader& header) {
  std::string uri = JoinUri(folder, name);
  for (const v1::DensePiece& piece : header.dense()) {
    if (piece.begin() > piece.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the piece of tensor ", piece.tensor(),
                                                     " for ", uri, " begins at ", piece.begin(),
                                                     " and ends at ", piece.end()));
    }
  }
  auto stored = std::make_unique<v1::PartitionFileHeader>(header);
  stored->set_format_version(kCheckpointFormatVersion);
  for (v1::SparsePiece& piece : *stored->mutable_sparse()) {
    piece.clear_rows();
    piece.clear_group_rows();
    piece.clear_dropped();
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StorageWriter> file, storage.Create(uri));
  std::unique_ptr<PartitionFileWriter> writer(new PartitionFileWriter(
      std::move(file), std::move(uri), std::string(name), std::move(stored)));
  MUSTER_RETURN_IF_ERROR(writer->Write(&kPartitionFileMagic, sizeof(kPartitionFileMagic)));
  return writer;
}

absl::Status PartitionFileWriter::Write(const void* data, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(file_->Append({static_cast<const std::byte*>(data), bytes}));
  checksum_.Add(data, bytes);
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status PartitionFileWriter::AppendDense(absl::Span<const float> weights,
                                              absl::Span<const absl::Span<const float>> state) {
  if (dense_ == header_->dense_size()) {
    return absl::InvalidArgumentError(absl::StrCat("a dense piece was appended to ", uri_,
                                                   ", which by its header has all ", dense_));
  }
  const v1::DensePiece& piece = header_->dense(dense_);
  const size_t arrays = piece.no_slots() ? 0 : header_->optimizer_slots_size();
  const uint64_t elements = piece.end() - piece.begin();
  if (weights.size() != elements || state.size() != arrays) {
    return absl::InvalidArgumentError(
        absl::StrCat(weights.size(), " weights and ", state.size(), " state arrays appended to ",
                     uri_, "; its header says that ", elements, " and ", arrays, " of tensor ",
                     piece.tensor(), " come next"));
  }
  for (const absl::Span<const float>& array : state) {
    if (array.size() == elements) continue;
    return absl::InvalidArgumentError(absl::StrCat("a state array of ", array.size(),
                                                   " elements for ", elements,
                                                   " weights appended to ", uri_));
  }
  MUSTER_RETURN_IF_ERROR(WriteArray(weights));
  for (const absl::Span<const float>& array : state) MUSTER_RETURN_IF_ERROR(WriteArray(array));
  ++dense_;
  return absl::OkStatus();
}

absl::Status PartitionFileWriter::EnterPiece(int piece) {
  if (dense_ < header_->dense_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows appended to ", uri_, ", which by its header has ", header_->dense_size(),
                     " dense pieces and got ", dense_));
  }
  if (piece < sparse_ || piece >= header_->sparse_size()) {
    return absl::InvalidArgumentError(absl::StrCat("rows of sparse piece ", piece, " of ",
                                                   header_->sparse_size(), " appended to ", uri_,
                                                   " after those of piece ", sparse_));
  }
  sparse_ = piece;
  return absl::OkStatus();
}

absl::Status PartitionFileWriter::AppendRows(int piece, const StoredRows& rows) {
  MUSTER_RETURN_IF_ERROR(EnterPiece(piece));
  v1::SparsePiece& sparse = *header_->mutable_sparse(piece);
  if (sparse.dropped() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("rows of table ", sparse.table(),
                                                   " appended to ", uri_, " after its ",
                                                   sparse.dropped(), " dropped keys"));
  }
  if (rows.width != sparse.width() || rows.steps.size() != rows.size() ||
      rows.last_use.size() != rows.size() || rows.values.size() != rows.size() * sparse.width()) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows.size(), " rows of table ", sparse.table(), " appended to ", uri_,
                     " with ", rows.steps.size(), " steps, ", rows.last_use.size(),
                     " last uses and ", rows.values.size(), " values; a row has ", sparse.width()));
  }
  if (rows.size() == 0) return absl::OkStatus();
  sparse.set_rows(sparse.rows() + rows.size());
  sparse.add_group_rows(rows.size());
  MUSTER_RETURN_IF_ERROR(WriteArray(rows.keys));
  MUSTER_RETURN_IF_ERROR(WriteArray(rows.steps));
  MUSTER_RETURN_IF_ERROR(WriteArray(rows.last_use));
  return WriteArray(rows.values);
}

absl::Status PartitionFileWriter::AppendDropped(int piece, absl::Span<const uint64_t> keys) {
  MUSTER_RETURN_IF_ERROR(EnterPiece(piece));
  v1::SparsePiece& sparse = *header_->mutable_sparse(piece);
  if (!keys.empty() && !header_->has_base_clock()) {
    return absl::InvalidArgumentError(absl::StrCat("dropped keys of table ", sparse.table(),
                                                   " appended to ", uri_, ", which has no base"));
  }
  sparse.set_dropped(sparse.dropped() + keys.size());
  return WriteArray(keys);
}

absl::StatusOr<PartitionFileInfo> PartitionFileWriter::Finish() {
  if (dense_ < header_->dense_size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        uri_, " is not complete: ", header_->dense_size() - dense_, " dense pieces are missing, ",
        "the first of tensor ", header_->dense(dense_).tensor()));
  }
  const std::string message = header_->SerializeAsString();
  if (message.size() > kMostCheckpointMessageBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("the header of ", uri_, " has ", message.size(), " bytes, at most ",
                     kMostCheckpointMessageBytes, " can be read; take more partitions"));
  }
  const uint64_t tail[] = {Fingerprint(message), message.size()};
  MUSTER_RETURN_IF_ERROR(Write(message.data(), message.size()));
  MUSTER_RETURN_IF_ERROR(Write(tail, sizeof(tail)));
  MUSTER_RETURN_IF_ERROR(file_->Commit());
  return PartitionFileInfo{.path = name_, .bytes = bytes_, .checksum = checksum_.Finish()};
}

}  // namespace muster
