#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/partition_file.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

using Kind = PartitionFileArray::Kind;

constexpr uint64_t kChunkBytes = 4 << 20;
constexpr uint64_t kMaxHeaderBytes = 1 << 30;

absl::Status Damaged(absl::string_view uri, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the checkpoint file ", uri, " is damaged: ", what,
                   "; the checkpoint is of no use, restore from an earlier one or a backup"));
}

// Bytes that must follow the header; the largest number when damaged ones add up to more.
absl::StatusOr<uint64_t> DataBytes(absl::string_view uri, const v1::PartitionFileHeader& header) {
  unsigned __int128 bytes = 0;
  for (const v1::DensePiece& piece : header.dense()) {
    if (piece.begin() > piece.end()) {
      return Damaged(uri, absl::StrCat("a piece of tensor ", piece.tensor(), " begins at ",
                                       piece.begin(), " and ends at ", piece.end()));
    }
    bytes += static_cast<unsigned __int128>(piece.end() - piece.begin()) * sizeof(float) *
             (1 + header.optimizer_slots_size());
  }
  for (const v1::SparsePiece& piece : header.sparse()) {
    bytes += static_cast<unsigned __int128>(piece.rows()) *
             (sizeof(uint64_t) + 2 * sizeof(uint32_t) + sizeof(float) * uint64_t{piece.width()});
  }
  return static_cast<uint64_t>(
      std::min<unsigned __int128>(bytes, std::numeric_limits<uint64_t>::max()));
}

}  // namespace

PartitionFileReader::PartitionFileReader(std::unique_ptr<StorageReader> file, std::string uri,
                                         std::unique_ptr<const v1::PartitionFileHeader> header,
                                         uint64_t data_begin)
    : file_(std::move(file)),
      uri_(std::move(uri)),
      header_(std::move(header)),
      arrays_(PartitionFileArrays(*header_)),
      data_begin_(data_begin) {}

PartitionFileReader::~PartitionFileReader() = default;

absl::StatusOr<std::unique_ptr<PartitionFileReader>> PartitionFileReader::Open(
    const CheckpointStorage& storage, absl::string_view uri) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StorageReader> file, storage.Open(uri));
  uint64_t length = 0;
  if (file->size() < sizeof(length)) {
    return Damaged(uri, absl::StrCat("it has ", file->size(), " bytes, expected at least 8"));
  }
  MUSTER_RETURN_IF_ERROR(file->Read(0, {reinterpret_cast<std::byte*>(&length), sizeof(length)}));
  if (length > std::min(kMaxHeaderBytes, file->size() - sizeof(length))) {
    return Damaged(uri, absl::StrCat("its header says it is ", length, " bytes long, the file has ",
                                     file->size()));
  }
  std::string message(length, '\0');
  MUSTER_RETURN_IF_ERROR(
      file->Read(sizeof(length), {reinterpret_cast<std::byte*>(message.data()), message.size()}));
  auto header = std::make_unique<v1::PartitionFileHeader>();
  if (!header->ParseFromString(message)) {
    return Damaged(uri, "its header is no PartitionFileHeader message");
  }
  if (header->format_version() > kCheckpointFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint file ", uri, " has format version ", header->format_version(),
                     ", this program reads up to ", kCheckpointFormatVersion,
                     "; run the version of Muster that wrote it, or a later one"));
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t data_bytes, DataBytes(uri, *header));
  const uint64_t data_begin = sizeof(length) + length;
  if (data_bytes != file->size() - data_begin) {
    return Damaged(uri, absl::StrCat("it has ", file->size() - data_begin,
                                     " bytes after its header, which stands for ", data_bytes));
  }
  return std::unique_ptr<PartitionFileReader>(
      new PartitionFileReader(std::move(file), std::string(uri), std::move(header), data_begin));
}

const PartitionFileArray& PartitionFileReader::Find(Kind kind, int piece, int slot) const {
  const int dense = header_->dense_size() * (1 + header_->optimizer_slots_size());
  if (kind == Kind::kDense) return arrays_[piece * (1 + header_->optimizer_slots_size()) + slot];
  return arrays_[dense + piece * 4 + static_cast<int>(kind) - static_cast<int>(Kind::kKeys)];
}

absl::Status PartitionFileReader::ReadArray(const PartitionFileArray& array, uint64_t first,
                                            void* out, uint64_t elements) const {
  if (elements == 0) return absl::OkStatus();
  const uint64_t element_bytes = array.bytes() / array.elements;
  return file_->Read(data_begin_ + array.offset + first * element_bytes,
                     {static_cast<std::byte*>(out), elements * element_bytes});
}

absl::Status PartitionFileReader::ReadDense(int piece, int slot, uint64_t offset,
                                            absl::Span<float> out) const {
  return ReadArray(Find(Kind::kDense, piece, slot), offset, out.data(), out.size());
}

absl::Status PartitionFileReader::ReadSparse(
    int piece, absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const {
  const uint64_t rows = header_->sparse(piece).rows();
  const uint32_t width = header_->sparse(piece).width();
  const uint64_t row_bytes = 16 + uint64_t{width} * sizeof(float);
  const uint64_t chunk = std::min(rows, std::max<uint64_t>(1, kChunkBytes / row_bytes));
  std::vector<uint64_t> keys(chunk);
  std::vector<uint32_t> steps(chunk);
  std::vector<uint32_t> last_use(chunk);
  std::vector<float> values(chunk * width);
  for (uint64_t first = 0; first < rows; first += chunk) {
    const uint64_t n = std::min(chunk, rows - first);
    MUSTER_RETURN_IF_ERROR(ReadArray(Find(Kind::kKeys, piece, 0), first, keys.data(), n));
    MUSTER_RETURN_IF_ERROR(ReadArray(Find(Kind::kSteps, piece, 0), first, steps.data(), n));
    MUSTER_RETURN_IF_ERROR(ReadArray(Find(Kind::kLastUse, piece, 0), first, last_use.data(), n));
    MUSTER_RETURN_IF_ERROR(
        ReadArray(Find(Kind::kValues, piece, 0), first * width, values.data(), n * width));
    MUSTER_RETURN_IF_ERROR(visitor({.keys = absl::MakeConstSpan(keys).first(n),
                                    .steps = absl::MakeConstSpan(steps).first(n),
                                    .last_use = absl::MakeConstSpan(last_use).first(n),
                                    .values = absl::MakeConstSpan(values).first(n * width),
                                    .width = width}));
  }
  return absl::OkStatus();
}

absl::Status PartitionFileReader::ReadKeys(
    int piece, absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const {
  const uint64_t rows = header_->sparse(piece).rows();
  const uint64_t chunk = std::min(rows, kChunkBytes / sizeof(uint64_t));
  std::vector<uint64_t> keys(chunk);
  for (uint64_t first = 0; first < rows; first += chunk) {
    const uint64_t n = std::min(chunk, rows - first);
    MUSTER_RETURN_IF_ERROR(ReadArray(Find(Kind::kKeys, piece, 0), first, keys.data(), n));
    MUSTER_RETURN_IF_ERROR(visitor(absl::MakeConstSpan(keys).first(n)));
  }
  return absl::OkStatus();
}

}  // namespace muster
