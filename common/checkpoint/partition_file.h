#ifndef MUSTER_COMMON_CHECKPOINT_PARTITION_FILE_H_
#define MUSTER_COMMON_CHECKPOINT_PARTITION_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/fingerprint.h"
#include "common/checkpoint/partition_file_layout.h"
#include "common/checkpoint/storage.h"

namespace muster {

namespace v1 {
class PartitionFileHeader;
}  // namespace v1

// The first eight bytes of a partition file from version 2 on. No version 1 header has this length.
inline constexpr uint64_t kPartitionFileMagic = 0xFFFFFFFF4B43534D;

// A partition's file as a manifest names it.
struct PartitionFileInfo {
  // Relative to the checkpoint's folder.
  std::string path;
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

// Rows of a sparse table: equally many keys, steps and last uses, and `width` values for each.
struct StoredRows {
  absl::Span<const uint64_t> keys;
  absl::Span<const uint32_t> steps;
  absl::Span<const uint32_t> last_use;
  // Row after row: dim weights, then the optimizer state.
  absl::Span<const float> values;
  uint32_t width = 0;

  size_t size() const { return keys.size(); }
  absl::Span<const float> row(size_t i) const { return values.subspan(i * width, width); }
};

// Writes one partition's file (proto/checkpoint.proto has the format, version 2) as a stream: keeps
// nothing in memory, and need not know the number of rows. An append out of order is
// InvalidArgument, and the writer is of no more use. Not thread-safe.
class PartitionFileWriter {
 public:
  // Starts the file `name` in the checkpoint's folder. `header` says whose file it is, and which
  // dense pieces and tables will come; the writer sets its version and numbers of rows. The storage
  // must outlive the writer.
  static absl::StatusOr<std::unique_ptr<PartitionFileWriter>> Create(
      CheckpointStorage& storage, absl::string_view folder, absl::string_view name,
      const v1::PartitionFileHeader& header);

  ~PartitionFileWriter();

  // Appends the next dense piece of the header, whole: its weights, then each state array (none for
  // a piece that has no_slots).
  absl::Status AppendDense(absl::Span<const float> weights,
                           absl::Span<const absl::Span<const float>> state);

  // Appends rows of a sparse piece, best some MiB at a time. Pieces come in the header's order,
  // after all dense ones.
  absl::Status AppendRows(int piece, const StoredRows& rows);

  // Appends keys of rows that a delta's base has and that are gone; after the piece's rows.
  absl::Status AppendDropped(int piece, absl::Span<const uint64_t> keys);

  // Makes the file durable and visible. FailedPrecondition: dense pieces are missing.
  absl::StatusOr<PartitionFileInfo> Finish();

 private:
  PartitionFileWriter(std::unique_ptr<StorageWriter> file, std::string uri, std::string name,
                      std::unique_ptr<v1::PartitionFileHeader> header);

  // Checks that a sparse piece may be appended to now.
  absl::Status EnterPiece(int piece);
  absl::Status Write(const void* data, size_t bytes);
  template <typename T>
  absl::Status WriteArray(absl::Span<const T> values) {
    return Write(values.data(), values.size() * sizeof(T));
  }

  const std::unique_ptr<StorageWriter> file_;
  const std::string uri_;
  const std::string name_;
  // With what has been written so far.
  const std::unique_ptr<v1::PartitionFileHeader> header_;
  int dense_ = 0;
  int sparse_ = 0;
  uint64_t bytes_ = 0;
  FingerprintStream checksum_;
};

// Reads one partition's file by ranges. Does not verify its checksum: VerifyCheckpointFile does,
// and CheckpointReader calls it. Thread-safe.
class PartitionFileReader {
 public:
  // Opens a file. DataLoss: the file is damaged, or of another length than its header says.
  // FailedPrecondition: a newer format.
  static absl::StatusOr<std::unique_ptr<PartitionFileReader>> Open(const CheckpointStorage& storage,
                                                                   absl::string_view uri);

  ~PartitionFileReader();

  const v1::PartitionFileHeader& header() const { return *header_; }

  // Fills `out` with elements of a dense piece from its `offset`th on: of the weights (array 0), or
  // of state array i (array 1 + i). REQUIRES: such a piece, array and range exist.
  absl::Status ReadDense(int piece, int array, uint64_t offset, absl::Span<float> out) const;

  // Calls `visitor` with the rows of a sparse piece in their order, some MiB at a time, and returns
  // its first error. The rows are valid during the call only.
  absl::Status ReadSparse(int piece,
                          absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const;

  // Visits the keys alone.
  absl::Status ReadKeys(int piece,
                        absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const;

  // Visits the keys of rows that the base has and this checkpoint has not.
  absl::Status ReadDropped(
      int piece, absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const;

 private:
  PartitionFileReader(std::unique_ptr<StorageReader> file, std::string uri,
                      std::unique_ptr<const v1::PartitionFileHeader> header, uint64_t data_begin);

  template <typename T>
  absl::Status ReadArray(uint64_t offset, absl::Span<T> out) const;
  absl::Status ReadKeyArray(
      uint64_t offset, uint64_t count,
      absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const;

  const std::unique_ptr<StorageReader> file_;
  const std::string uri_;
  const std::unique_ptr<const v1::PartitionFileHeader> header_;
  const PartitionFileLayout layout_;
  // Where the arrays start in the file.
  const uint64_t data_begin_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_PARTITION_FILE_H_
