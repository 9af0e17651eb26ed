#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/partition_file.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

constexpr uint64_t kChunkBytes = 4 << 20;
// Largest row with its optimizer state: several times what a table's width allows.
constexpr uint32_t kMostRowFloats = 1 << 20;

absl::Status Damaged(absl::string_view uri, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the checkpoint file ", uri, " is damaged: ", what,
                   "; the checkpoint is of no use, restore from an earlier one or a backup"));
}

absl::StatusOr<uint64_t> ReadU64(const StorageReader& file, uint64_t offset) {
  uint64_t value = 0;
  MUSTER_RETURN_IF_ERROR(file.Read(offset, {reinterpret_cast<std::byte*>(&value), sizeof(value)}));
  return value;
}

absl::StatusOr<std::string> ReadText(const StorageReader& file, uint64_t offset, uint64_t length) {
  std::string text(length, '\0');
  MUSTER_RETURN_IF_ERROR(
      file.Read(offset, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  return text;
}

// A file's header, and where the arrays that it describes begin and end.
struct Head {
  std::unique_ptr<v1::PartitionFileHeader> header = std::make_unique<v1::PartitionFileHeader>();
  uint64_t data_begin = 0;
  uint64_t data_end = 0;
};

// Version 1: the header comes first.
absl::StatusOr<Head> ReadLeadingHeader(absl::string_view uri, const StorageReader& file,
                                       uint64_t length) {
  if (length > std::min(kMostCheckpointMessageBytes, file.size() - sizeof(length))) {
    return Damaged(uri, absl::StrCat("its header says it is ", length, " bytes long, the file has ",
                                     file.size()));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string message, ReadText(file, sizeof(length), length));
  Head head;
  if (!head.header->ParseFromString(message)) {
    return Damaged(uri, "its header is no PartitionFileHeader message");
  }
  head.data_begin = sizeof(length) + length;
  head.data_end = file.size();
  return head;
}

// Version 2 on: it comes last, with its checksum and its length.
absl::StatusOr<Head> ReadTrailingHeader(absl::string_view uri, const StorageReader& file) {
  constexpr uint64_t kFrame = sizeof(kPartitionFileMagic) + 2 * sizeof(uint64_t);
  if (file.size() < kFrame) {
    return Damaged(uri, absl::StrCat("it has ", file.size(), " bytes, expected at least ", kFrame));
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t length, ReadU64(file, file.size() - sizeof(uint64_t)));
  if (length > std::min(kMostCheckpointMessageBytes, file.size() - kFrame)) {
    return Damaged(uri, absl::StrCat("its header says it is ", length, " bytes long, the file has ",
                                     file.size()));
  }
  Head head;
  head.data_begin = sizeof(kPartitionFileMagic);
  head.data_end = file.size() - 2 * sizeof(uint64_t) - length;
  MUSTER_ASSIGN_OR_RETURN(const std::string message, ReadText(file, head.data_end, length));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t expected, ReadU64(file, head.data_end + length));
  if (const uint64_t actual = Fingerprint(message); actual != expected) {
    return Damaged(uri, absl::StrCat("its header has checksum ", absl::Hex(actual), ", stored is ",
                                     absl::Hex(expected)));
  }
  if (!head.header->ParseFromString(message)) {
    return Damaged(uri, "its header is no PartitionFileHeader message");
  }
  return head;
}

absl::Status CheckPieces(absl::string_view uri, const v1::PartitionFileHeader& header) {
  for (const v1::DensePiece& piece : header.dense()) {
    if (piece.begin() <= piece.end()) continue;
    return Damaged(uri, absl::StrCat("a piece of tensor ", piece.tensor(), " begins at ",
                                     piece.begin(), " and ends at ", piece.end()));
  }
  for (const v1::SparsePiece& piece : header.sparse()) {
    if (piece.width() > kMostRowFloats) {
      return Damaged(uri, absl::StrCat("table ", piece.table(), " has rows of ", piece.width(),
                                       " values, at most ", kMostRowFloats, " are possible"));
    }
    uint64_t rows = 0;
    for (const uint64_t group : piece.group_rows()) rows += group;
    if (header.format_version() == 1 || rows == piece.rows()) continue;
    return Damaged(uri, absl::StrCat("table ", piece.table(), " has ", piece.rows(),
                                     " rows and groups of ", rows));
  }
  return absl::OkStatus();
}

}  // namespace

PartitionFileReader::PartitionFileReader(std::unique_ptr<StorageReader> file, std::string uri,
                                         std::unique_ptr<const v1::PartitionFileHeader> header,
                                         uint64_t data_begin)
    : file_(std::move(file)),
      uri_(std::move(uri)),
      header_(std::move(header)),
      layout_(*header_),
      data_begin_(data_begin) {}

PartitionFileReader::~PartitionFileReader() = default;

absl::StatusOr<std::unique_ptr<PartitionFileReader>> PartitionFileReader::Open(
    const CheckpointStorage& storage, absl::string_view uri) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StorageReader> file, storage.Open(uri));
  if (file->size() < sizeof(uint64_t)) {
    return Damaged(uri, absl::StrCat("it has ", file->size(), " bytes, expected at least 8"));
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t first, ReadU64(*file, 0));
  MUSTER_ASSIGN_OR_RETURN(Head head, first == kPartitionFileMagic
                                         ? ReadTrailingHeader(uri, *file)
                                         : ReadLeadingHeader(uri, *file, first));
  const uint32_t version = head.header->format_version();
  if (version > kCheckpointFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint file ", uri, " has format version ", version,
                     ", written by a later release of Muster; this one reads formats up to ",
                     kCheckpointFormatVersion));
  }
  const uint32_t expected_version = first == kPartitionFileMagic ? 2 : 1;
  if (version != expected_version) {
    return Damaged(uri, absl::StrCat("its header has format version ", version,
                                     ", the file begins as one of version ", expected_version));
  }
  MUSTER_RETURN_IF_ERROR(CheckPieces(uri, *head.header));
  const uint64_t data_bytes = PartitionFileLayout::DataBytes(*head.header);
  if (data_bytes != head.data_end - head.data_begin) {
    return Damaged(uri, absl::StrCat("it has ", head.data_end - head.data_begin,
                                     " bytes beside its header, which stands for ", data_bytes));
  }
  return std::unique_ptr<PartitionFileReader>(new PartitionFileReader(
      std::move(file), std::string(uri), std::move(head.header), head.data_begin));
}

template <typename T>
absl::Status PartitionFileReader::ReadArray(uint64_t offset, absl::Span<T> out) const {
  if (out.empty()) return absl::OkStatus();
  return file_->Read(data_begin_ + offset,
                     {reinterpret_cast<std::byte*>(out.data()), out.size() * sizeof(T)});
}

absl::Status PartitionFileReader::ReadDense(int piece, int array, uint64_t offset,
                                            absl::Span<float> out) const {
  return ReadArray(layout_.Dense(piece, array) + offset * sizeof(float), out);
}

absl::Status PartitionFileReader::ReadSparse(
    int piece, absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const {
  const uint32_t width = header_->sparse(piece).width();
  const uint64_t row_bytes = 16 + uint64_t{width} * sizeof(float);
  const uint64_t most =
      std::min(header_->sparse(piece).rows(), std::max<uint64_t>(1, kChunkBytes / row_bytes));
  std::vector<uint64_t> keys(most);
  std::vector<uint32_t> steps(most);
  std::vector<uint32_t> last_use(most);
  std::vector<float> values(most * width);
  for (const PartitionFileLayout::Group& group : layout_.groups(piece)) {
    for (uint64_t first = 0; first < group.rows; first += most) {
      const uint64_t n = std::min(most, group.rows - first);
      const absl::Span<uint64_t> k = absl::MakeSpan(keys).first(n);
      const absl::Span<uint32_t> s = absl::MakeSpan(steps).first(n);
      const absl::Span<uint32_t> u = absl::MakeSpan(last_use).first(n);
      const absl::Span<float> v = absl::MakeSpan(values).first(n * width);
      MUSTER_RETURN_IF_ERROR(ReadArray(group.keys() + first * sizeof(uint64_t), k));
      MUSTER_RETURN_IF_ERROR(ReadArray(group.steps() + first * sizeof(uint32_t), s));
      MUSTER_RETURN_IF_ERROR(ReadArray(group.last_use() + first * sizeof(uint32_t), u));
      MUSTER_RETURN_IF_ERROR(ReadArray(group.values() + first * width * sizeof(float), v));
      MUSTER_RETURN_IF_ERROR(
          visitor({.keys = k, .steps = s, .last_use = u, .values = v, .width = width}));
    }
  }
  return absl::OkStatus();
}

absl::Status PartitionFileReader::ReadKeyArray(
    uint64_t offset, uint64_t count,
    absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const {
  std::vector<uint64_t> keys(std::min(count, kChunkBytes / sizeof(uint64_t)));
  for (uint64_t first = 0; first < count; first += keys.size()) {
    const absl::Span<uint64_t> part =
        absl::MakeSpan(keys).first(std::min<uint64_t>(keys.size(), count - first));
    MUSTER_RETURN_IF_ERROR(ReadArray(offset + first * sizeof(uint64_t), part));
    MUSTER_RETURN_IF_ERROR(visitor(part));
  }
  return absl::OkStatus();
}

absl::Status PartitionFileReader::ReadKeys(
    int piece, absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const {
  for (const PartitionFileLayout::Group& group : layout_.groups(piece)) {
    MUSTER_RETURN_IF_ERROR(ReadKeyArray(group.keys(), group.rows, visitor));
  }
  return absl::OkStatus();
}

absl::Status PartitionFileReader::ReadDropped(
    int piece, absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const {
  const PartitionFileLayout::Dropped& dropped = layout_.dropped(piece);
  return ReadKeyArray(dropped.offset, dropped.keys, visitor);
}

}  // namespace muster
