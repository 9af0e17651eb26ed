#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/partition_file.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little, "stored numbers are little-endian");

using Kind = PartitionFileArray::Kind;

absl::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kDense:
      return "values of a dense piece";
    case Kind::kKeys:
      return "keys of a sparse table";
    case Kind::kSteps:
      return "steps of a sparse table";
    case Kind::kLastUse:
      return "last uses of a sparse table";
    case Kind::kValues:
      return "values of a sparse table";
  }
  return "";
}

}  // namespace

uint64_t PartitionFileArray::bytes() const {
  return elements * (kind == Kind::kKeys ? sizeof(uint64_t) : sizeof(float));
}

std::vector<PartitionFileArray> PartitionFileArrays(const v1::PartitionFileHeader& header) {
  std::vector<PartitionFileArray> arrays;
  uint64_t offset = 0;
  const auto add = [&arrays, &offset](Kind kind, int piece, int slot, uint64_t elements) {
    arrays.push_back(
        {.kind = kind, .piece = piece, .slot = slot, .elements = elements, .offset = offset});
    offset += arrays.back().bytes();
  };
  for (int i = 0; i < header.dense_size(); ++i) {
    for (int slot = 0; slot <= header.optimizer_slots_size(); ++slot) {
      add(Kind::kDense, i, slot, header.dense(i).end() - header.dense(i).begin());
    }
  }
  for (int i = 0; i < header.sparse_size(); ++i) {
    const uint64_t rows = header.sparse(i).rows();
    add(Kind::kKeys, i, 0, rows);
    add(Kind::kSteps, i, 0, rows);
    add(Kind::kLastUse, i, 0, rows);
    add(Kind::kValues, i, 0, rows * header.sparse(i).width());
  }
  return arrays;
}

PartitionFileWriter::PartitionFileWriter(std::unique_ptr<StorageWriter> file, std::string uri,
                                         std::string name, std::vector<PartitionFileArray> arrays)
    : file_(std::move(file)),
      uri_(std::move(uri)),
      name_(std::move(name)),
      arrays_(std::move(arrays)) {}

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
  v1::PartitionFileHeader stored = header;
  stored.set_format_version(kCheckpointFormatVersion);
  const std::string message = stored.SerializeAsString();
  const uint64_t length = message.size();
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StorageWriter> file, storage.Create(uri));
  std::unique_ptr<PartitionFileWriter> writer(new PartitionFileWriter(
      std::move(file), std::move(uri), std::string(name), PartitionFileArrays(stored)));
  MUSTER_RETURN_IF_ERROR(writer->WriteBytes(&length, sizeof(length)));
  MUSTER_RETURN_IF_ERROR(writer->WriteBytes(message.data(), message.size()));
  return writer;
}

absl::Status PartitionFileWriter::WriteBytes(const void* data, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(file_->Append({static_cast<const std::byte*>(data), bytes}));
  checksum_.Add(data, bytes);
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status PartitionFileWriter::Append(Kind kind, const void* data, size_t elements,
                                         size_t element_bytes) {
  if (elements == 0) return absl::OkStatus();
  while (array_ < arrays_.size() && elements_ == arrays_[array_].elements) {
    ++array_;
    elements_ = 0;
  }
  if (array_ == arrays_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(elements, " ", KindName(kind), " appended to ",
                                                   uri_, ", which is complete by its header"));
  }
  const PartitionFileArray& array = arrays_[array_];
  if (array.kind != kind || elements > array.elements - elements_) {
    return absl::InvalidArgumentError(
        absl::StrCat(elements, " ", KindName(kind), " appended to ", uri_, "; by its header, ",
                     array.elements - elements_, " ", KindName(array.kind), " come next (piece ",
                     array.piece, ", slot ", array.slot, ")"));
  }
  elements_ += elements;
  return WriteBytes(data, elements * element_bytes);
}

absl::Status PartitionFileWriter::AppendDense(absl::Span<const float> weights,
                                              absl::Span<const absl::Span<const float>> slots) {
  MUSTER_RETURN_IF_ERROR(Append(Kind::kDense, weights.data(), weights.size(), sizeof(float)));
  for (const absl::Span<const float>& slot : slots) {
    if (slot.size() != weights.size()) {
      return absl::InvalidArgumentError(absl::StrCat("an optimizer slot of ", slot.size(),
                                                     " elements for ", weights.size(),
                                                     " weights appended to ", uri_));
    }
    MUSTER_RETURN_IF_ERROR(Append(Kind::kDense, slot.data(), slot.size(), sizeof(float)));
  }
  return absl::OkStatus();
}

absl::Status PartitionFileWriter::AppendKeys(absl::Span<const uint64_t> keys) {
  return Append(Kind::kKeys, keys.data(), keys.size(), sizeof(uint64_t));
}

absl::Status PartitionFileWriter::AppendSteps(absl::Span<const uint32_t> steps) {
  return Append(Kind::kSteps, steps.data(), steps.size(), sizeof(uint32_t));
}

absl::Status PartitionFileWriter::AppendLastUse(absl::Span<const uint32_t> last_use) {
  return Append(Kind::kLastUse, last_use.data(), last_use.size(), sizeof(uint32_t));
}

absl::Status PartitionFileWriter::AppendValues(absl::Span<const float> values) {
  return Append(Kind::kValues, values.data(), values.size(), sizeof(float));
}

absl::StatusOr<PartitionFileInfo> PartitionFileWriter::Finish() {
  while (array_ < arrays_.size() && elements_ == arrays_[array_].elements) {
    ++array_;
    elements_ = 0;
  }
  if (array_ < arrays_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(uri_, " is not complete: ", arrays_[array_].elements - elements_, " ",
                     KindName(arrays_[array_].kind), " are missing (piece ", arrays_[array_].piece,
                     ", slot ", arrays_[array_].slot, ")"));
  }
  MUSTER_RETURN_IF_ERROR(file_->Commit());
  return PartitionFileInfo{.path = name_, .bytes = bytes_, .checksum = checksum_.Finish()};
}

}  // namespace muster
