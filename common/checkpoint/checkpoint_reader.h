#ifndef MUSTER_COMMON_CHECKPOINT_CHECKPOINT_READER_H_
#define MUSTER_COMMON_CHECKPOINT_CHECKPOINT_READER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/loss_scale.h"
#include "common/checkpoint/partition_file.h"
#include "common/checkpoint/storage.h"

namespace muster {

namespace v1 {
class CheckpointManifest;
class DensePiece;
}  // namespace v1

// Reads a complete checkpoint as logical tensors and tables, however many partitions it was written
// from, so that it can be restored onto any number. A delta is read together with those that it
// goes on from, as if it had been written whole: of a row, the newest is handed out. A file's
// checksum is verified once, before the first of its elements is handed out. Thread-safe. Errors of
// every call: DataLoss names the file that is damaged, or the elements that no file holds.
//
// Two names stand for what a schema does not have: tensor "residual/SLOT/NAME", the residuals of a
// slot's half-precision pushes of tensor NAME, and table "NAME candidates", the keys of table NAME
// that have no row yet. A checkpoint may lack the latter: it reads as empty.
class CheckpointReader {
 public:
  // `folder` is the checkpoint's (ROOT/JOB/CLOCK); the storage must outlive the reader. Reads the
  // manifest and the heads of all files. NotFound: no complete checkpoint there.
  // FailedPrecondition: a newer format.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const CheckpointStorage& storage,
                                                                absl::string_view folder);

  ~CheckpointReader();

  const v1::CheckpointManifest& manifest() const { return *manifest_; }
  // Names of the optimizer slots of dense tensors, in order.
  const std::vector<std::string>& optimizer_slots() const { return optimizer_slots_; }

  // Fills `values` with the elements of a dense tensor from its `begin`th on (row-major). `slot`
  // names an optimizer slot; empty: the weights. NotFound: no such tensor, residuals or slot in the
  // checkpoint. OutOfRange: the tensor is smaller.
  absl::Status ReadTensor(absl::string_view tensor, absl::string_view slot, uint64_t begin,
                          absl::Span<float> values) const;

  // What the slot's loss scale had come to, for a job whose slots are as many as it likes: that of
  // slot modulo those that there are. Absent: no slot had one that is found while training.
  absl::StatusOr<std::optional<LossScale>> ReadLossScale(uint32_t slot) const;

  // The largest number of optimizer steps that any of these elements has seen.
  absl::StatusOr<uint64_t> TensorSteps(absl::string_view tensor, uint64_t begin,
                                       uint64_t end) const;

  // Calls `visitor` with the rows of a sparse table in chunks, until it returns an error, which is
  // returned, each key once. Files come in order of partition; with `partition`, only that one's
  // file. Rows are valid during the call only. NotFound: the checkpoint has no such table, or no
  // such partition.
  absl::Status ReadSparse(absl::string_view table, std::optional<uint32_t> partition,
                          absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const;

  // Rows of a sparse table in the whole checkpoint. NotFound as above.
  absl::StatusOr<uint64_t> SparseRowCount(absl::string_view table) const;

  // The keys alone, in the order of ReadSparse.
  absl::Status ReadSparseKeys(
      absl::string_view table,
      absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const;

 private:
  struct File {
    std::unique_ptr<PartitionFileReader> reader;
    std::atomic<bool> verified = false;
  };

  // Where a piece of a tensor lies.
  struct Location {
    size_t file = 0;
    int piece = 0;
  };

  CheckpointReader(const CheckpointStorage& storage, std::string folder,
                   std::unique_ptr<const v1::CheckpointManifest> manifest);

  absl::Status OpenFiles();
  absl::Status OpenBase();
  absl::Status CheckDensePiece(const std::string& uri, const v1::DensePiece& piece) const;
  absl::Status Verify(size_t file) const;
  // The tensor's number in the manifest's schema, after a check of the range.
  absl::StatusOr<int> FindTensor(absl::string_view tensor, uint64_t begin, uint64_t end) const;
  absl::Status CheckSparseTable(absl::string_view table) const;
  // What of a table's rows a visitor gets.
  enum class Columns { kAll, kKeys };

  absl::Status VisitRows(absl::string_view table, std::optional<uint32_t> partition,
                         Columns columns,
                         absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const;
  // Calls `visitor` for each piece of the table in the file, verified.
  absl::Status VisitPieces(
      size_t file, absl::string_view table,
      absl::FunctionRef<absl::Status(const PartitionFileReader& file, int piece)> visitor) const;
  // Rows of one file of a delta and those that it goes on from.
  absl::Status VisitChain(size_t file, absl::string_view table, Columns columns,
                          absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const;

  const CheckpointStorage& storage_;
  const std::string folder_;
  const std::unique_ptr<const v1::CheckpointManifest> manifest_;
  // Const after Open; in order of the manifest's files.
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::string> optimizer_slots_;
  std::map<std::string, std::vector<Location>, std::less<>> dense_;
  // Of a delta: what it goes on from; const after Open.
  std::unique_ptr<const CheckpointReader> base_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_CHECKPOINT_READER_H_
