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
#include "common/partition/tensor_spec.h"

namespace muster {

namespace v1 {
class CheckpointManifest;
class DensePiece;
class TensorSchema;
}  // namespace v1

// Reads a complete checkpoint as logical tensors and tables, so that it can be restored onto any
// number of partitions. A delta is read together with its chain of bases, as if it had been written
// whole: of each row the newest version is returned. A file's checksum is verified once, before any
// of its elements is returned. Thread-safe. Errors of every call: DataLoss names the file that is
// damaged, or the elements that no file holds.
//
// Two names are in no schema: tensor "residual/SLOT/NAME" is the residual of a slot's
// half-precision pushes of tensor NAME; table "NAME candidates" has the keys of table NAME without
// a row yet, and reads as empty when the checkpoint lacks it.
class CheckpointReader {
 public:
  // Reads the manifest and the headers of all files of the checkpoint in `folder` (ROOT/JOB/CLOCK).
  // Of a program's checkpoint it has what servers held for it (ServedManifest). The storage must
  // outlive the reader. NotFound: no complete checkpoint there. FailedPrecondition: a newer format,
  // or a program's files alone.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const CheckpointStorage& storage,
                                                                absl::string_view folder);

  ~CheckpointReader();

  const v1::CheckpointManifest& manifest() const { return *manifest_; }
  // Returns the names of the state arrays of dense tensors, in order.
  const std::vector<std::string>& state_names() const { return state_names_; }
  // Returns whether the state arrays have averages of the weights (kAverageState).
  bool has_averages() const;
  // InvalidArgument: they have none.
  absl::Status CheckAverages() const;

  // Fills `values` with the elements of a dense tensor from its `begin`th on (row-major): of its
  // state array `state`, or of its weights when that is empty. NotFound: the checkpoint has no such
  // tensor, residual or state array. OutOfRange: the tensor is smaller.
  absl::Status ReadTensor(absl::string_view tensor, absl::string_view state, uint64_t begin,
                          absl::Span<float> values) const;
  // Does the same with the elements of a rectangle of the tensor, counted row-major within it.
  // OutOfRange: the rectangle is not within the tensor, or is smaller.
  absl::Status ReadRectangle(absl::string_view tensor, absl::string_view state,
                             const Rectangle& rectangle, uint64_t begin,
                             absl::Span<float> values) const;

  // Returns a slot's loss scale. A slot beyond those in the checkpoint gets the scale of slot
  // modulo their number. Absent: no slot adapted its scale while training.
  absl::StatusOr<std::optional<LossScale>> ReadLossScale(uint32_t slot) const;

  // Returns the most optimizer steps that any of a rectangle's elements [begin, end) has seen.
  // Errors as above.
  absl::StatusOr<uint64_t> TensorSteps(absl::string_view tensor, const Rectangle& rectangle,
                                       uint64_t begin, uint64_t end) const;

  // Calls `visitor` with the rows of a sparse table, each key once, some MiB at a time, in order of
  // partition; with `partition`, of that partition's file only. Rows are valid during the call
  // only. Returns the visitor's first error. NotFound: the checkpoint has no such table, or no such
  // partition.
  absl::Status ReadSparse(absl::string_view table, std::optional<uint32_t> partition,
                          absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const;

  // Returns how many rows of a sparse table the checkpoint has. NotFound as above.
  absl::StatusOr<uint64_t> SparseRowCount(absl::string_view table) const;

  // Visits the keys alone, in the order of ReadSparse.
  absl::Status ReadSparseKeys(
      absl::string_view table,
      absl::FunctionRef<absl::Status(absl::Span<const uint64_t>)> visitor) const;

 private:
  struct File {
    std::unique_ptr<PartitionFileReader> reader;
    std::atomic<bool> verified = false;
  };

  // `count` elements: from `first` on in a rectangle, from `global` on in its tensor.
  struct Run {
    uint64_t first = 0;
    uint64_t global = 0;
    uint64_t count = 0;
  };

  // Elements [from, from + count) of a piece are the rectangle's elements [to, to + count).
  struct Overlap {
    uint64_t from = 0;
    uint64_t to = 0;
    uint64_t count = 0;

    bool IsFollowedBy(const Overlap& next) const {
      return from + count == next.from && to + count == next.to;
    }
  };

  // A piece of a tensor, by file and number in it.
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
  // Returns what a piece has of the elements that are wanted, in order of these.
  static std::vector<Overlap> OverlapsOf(const v1::TensorSchema& tensor,
                                         const v1::DensePiece& piece, absl::Span<const Run> wanted);
  // Returns the tensor's element that element `at` of the rectangle is.
  static uint64_t GlobalIndex(absl::Span<const Run> runs, uint64_t at);
  absl::StatusOr<const v1::TensorSchema*> FindTensor(absl::string_view tensor) const;
  // Returns the consecutive elements of the tensor that elements [begin, end) of the rectangle are,
  // after a check of both.
  absl::StatusOr<std::vector<Run>> RunsOf(const v1::TensorSchema& tensor,
                                          const Rectangle& rectangle, uint64_t begin,
                                          uint64_t end) const;
  absl::Status CheckSparseTable(absl::string_view table) const;
  enum class Columns { kAll, kKeys };

  absl::Status VisitRows(absl::string_view table, std::optional<uint32_t> partition,
                         Columns columns,
                         absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const;
  // Calls `visitor` for each piece of the table in the file, verified.
  absl::Status VisitPieces(
      size_t file, absl::string_view table,
      absl::FunctionRef<absl::Status(const PartitionFileReader& file, int piece)> visitor) const;
  // Visits the rows of one file of a delta and its chain of bases.
  absl::Status VisitChain(size_t file, absl::string_view table, Columns columns,
                          absl::FunctionRef<absl::Status(const StoredRows&)> visitor) const;

  const CheckpointStorage& storage_;
  const std::string folder_;
  const std::unique_ptr<const v1::CheckpointManifest> manifest_;
  // Const after Open; in order of the manifest's files.
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::string> state_names_;
  std::map<std::string, std::vector<Location>, std::less<>> dense_;
  // Set for a delta; const after Open.
  std::unique_ptr<const CheckpointReader> base_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_CHECKPOINT_READER_H_
