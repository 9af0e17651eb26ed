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
#include "common/checkpoint/storage.h"

namespace muster {

namespace v1 {
class PartitionFileHeader;
}  // namespace v1

// What a manifest says of a partition's file.
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
  // Row after row: dim weights, then the optimizer's slots.
  absl::Span<const float> values;
  uint32_t width = 0;

  size_t size() const { return keys.size(); }
  absl::Span<const float> row(size_t i) const { return values.subspan(i * width, width); }
};

// One array of a partition file: elements of one type, one after another.
struct PartitionFileArray {
  enum class Kind { kDense, kKeys, kSteps, kLastUse, kValues };

  Kind kind = Kind::kDense;
  // Which of the header's dense or sparse pieces.
  int piece = 0;
  // kDense: 0 for the weights, 1 + i for optimizer slot i.
  int slot = 0;
  uint64_t elements = 0;
  // Where the array lies, counted from the end of the header.
  uint64_t offset = 0;

  uint64_t bytes() const;
};

// The arrays of a file in order. A pure function of the header.
std::vector<PartitionFileArray> PartitionFileArrays(const v1::PartitionFileHeader& header);

// Writes one partition's file (proto/checkpoint.proto has the format) as a stream: what was
// appended is not kept in memory. Arrays come in the order of the header; each may be appended in
// any number of calls. An append that does not fit the header is InvalidArgument, and the writer is
// of no more use. Not thread-safe.
class PartitionFileWriter {
 public:
  // `header` says what will come; its format version is set here. `folder` is the checkpoint's. The
  // storage must outlive the writer.
  static absl::StatusOr<std::unique_ptr<PartitionFileWriter>> Create(
      CheckpointStorage& storage, absl::string_view folder, absl::string_view name,
      const v1::PartitionFileHeader& header);

  ~PartitionFileWriter();

  // A whole dense piece: its weights, then each optimizer slot.
  absl::Status AppendDense(absl::Span<const float> weights,
                           absl::Span<const absl::Span<const float>> slots);

  // Parts of a sparse piece: all its keys, then all steps, all last uses, all values (rows x
  // width).
  absl::Status AppendKeys(absl::Span<const uint64_t> keys);
  absl::Status AppendSteps(absl::Span<const uint32_t> steps);
  absl::Status AppendLastUse(absl::Span<const uint32_t> last_use);
  absl::Status AppendValues(absl::Span<const float> values);

  // Makes the file durable and visible. FailedPrecondition: arrays are missing.
  absl::StatusOr<PartitionFileInfo> Finish();

 private:
  PartitionFileWriter(std::unique_ptr<StorageWriter> file, std::string uri, std::string name,
                      std::vector<PartitionFileArray> arrays);

  absl::Status Append(PartitionFileArray::Kind kind, const void* data, size_t elements,
                      size_t element_bytes);
  absl::Status WriteBytes(const void* data, size_t bytes);

  const std::unique_ptr<StorageWriter> file_;
  const std::string uri_;
  const std::string name_;
  const std::vector<PartitionFileArray> arrays_;
  // The array being written, and how much of it is.
  size_t array_ = 0;
  uint64_t elements_ = 0;
  uint64_t bytes_ = 0;
  FingerprintStream checksum_;
};

// Reads one partition's file by ranges. Does not verify its checksum: VerifyCheckpointFile does,
// and CheckpointReader calls it. Thread-safe.
class PartitionFileReader {
 public:
  // DataLoss: damaged, or of another length than its header says. FailedPrecondition: a newer
  // format.
  static absl::StatusOr<std::unique_ptr<PartitionFileReader>> Open(const CheckpointStorage& storage,
                                                                   absl::string_view uri);

  ~PartitionFileReader();

  const v1::PartitionFileHeader& header() const { return *header_; }

  // Fills `out` with elements of a dense piece from its `offset`th on; slot 0 is the weights, 1 + i
  // optimizer slot i. REQUIRES: such a piece, slot and range exist.
  absl::Status ReadDense(int piece, int slot, uint64_t offset, absl::Span<float> out) const;

  // Calls `visitor` with the rows of a sparse piece in their order, in chunks of some MiB at most,
  // until it returns an error, which is returned. The rows are valid during the call only.
  absl::Status ReadSparse(int piece,
                          absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const;

  // The same for keys alone.
  absl::Status ReadKeys(int piece,
                        absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const;

 private:
  PartitionFileReader(std::unique_ptr<StorageReader> file, std::string uri,
                      std::unique_ptr<const v1::PartitionFileHeader> header, uint64_t data_begin);

  const PartitionFileArray& Find(PartitionFileArray::Kind kind, int piece, int slot) const;
  absl::Status ReadArray(const PartitionFileArray& array, uint64_t first, void* out,
                         uint64_t elements) const;

  const std::unique_ptr<StorageReader> file_;
  const std::string uri_;
  const std::unique_ptr<const v1::PartitionFileHeader> header_;
  const std::vector<PartitionFileArray> arrays_;
  // Where the arrays start in the file.
  const uint64_t data_begin_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_PARTITION_FILE_H_
