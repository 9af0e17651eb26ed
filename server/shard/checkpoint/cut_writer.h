#ifndef MUSTER_SERVER_SHARD_CHECKPOINT_CUT_WRITER_H_
#define MUSTER_SERVER_SHARD_CHECKPOINT_CUT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/loss_scale.h"
#include "common/checkpoint/partition_file.h"
#include "common/checkpoint/storage.h"
#include "common/tables/table_snapshot.h"
#include "server/shard/resources/crash_point.h"
#include "server/shard/resources/executor.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

class CutView;

// Writes a partition's cuts as checkpoint files while the partition goes on.
//
// Take holds the tables as they are at that moment, in time that does not grow with their values:
// dense blocks by their immutable versions, rows in memory by a TableSnapshot, rows on disk by a
// snapshot of the store. Write then makes the file, in turns of two threads that hand one buffer to
// and fro:
//
//   on the strand, between batches     on a thread for files
//   ------------------------------     ---------------------------------------------------
//   keys of all rows in memory
//                                      sorts them; writes the dense pieces
//   the next 2 MiB of rows, in order
//                                      merges rows on disk into their order; writes both
//   …                                  …
//                                      makes the file durable
//   `done`
//
// So the partition stops only for the copy of 2 MiB at a time, and training pays beyond that a copy
// of each block and row that changes before it was read out. Rows are in ascending order of key:
// equal tables give equal files.
//
// A delta leaves out rows whose last use is before its base: updates since that cut have at least
// the base's clock, earlier ones a lower one. A delta lists the keys of rows that expired since the
// cut before, dropped by then or not. The file is written whole where the cut before is not the
// base (or was taken by an earlier life of the server), and where too many rows went to be noted.
//
// All methods run on the strand.
class CutWriter {
 public:
  struct Options {
    CheckpointStorage* storage = nullptr;
    CrashPoint* crash_point = nullptr;
  };
  using Done = std::function<void(const absl::StatusOr<PartitionFileInfo>& file)>;

  // The tables must outlive the writer. `strand` runs tasks one at a time, and never together with
  // the methods here; tasks of `files` may block. Files not finished at destruction never appear.
  CutWriter(PartitionTables& tables, Options options, std::shared_ptr<Executor> strand,
            std::shared_ptr<Executor> files);
  ~CutWriter();

  // Returns the clock of the view that is held; absent: none is.
  absl::optional<uint64_t> clock() const;
  bool writing() const { return writing_; }
  // Returns the bytes that were copied aside for the view.
  size_t memory_bytes() const;

  // Takes a view of the tables in place of any before. REQUIRES: not writing(). Errors: the
  // store's.
  absl::Status Take(uint64_t clock);

  // Lets the view go. REQUIRES: not writing().
  void Drop();

  // Adds a slot's residual to the view: what its half-precision pushes have yet to carry over, of
  // all dense blocks one after another. REQUIRES: a view; not writing().
  void AddResidual(uint32_t slot, std::shared_ptr<const float> values);
  // Returns the number of slots that were added.
  size_t residuals() const;
  // Adds a slot's loss scale to the view; the same holds.
  void AddLossScale(const SlotLossScale& scale);
  size_t loss_scales() const;

  // Writes the view, as a delta on the cut at `base` where that is possible. Then lets the view go
  // and calls `done`, on the strand. REQUIRES: a view; not writing().
  void Write(absl::optional<uint64_t> base, Done done);

 private:
  // Posts a task to the strand. The task is dropped if the writer is gone by then.
  void OnStrand(void (CutWriter::*step)());
  void Collect();
  void NextRows();
  void Finish(const absl::StatusOr<PartitionFileInfo>& file);
  // Runs `work` on a thread for files, then `step` on the strand unless `work` failed.
  void OnFiles(std::function<absl::Status(CutView&)> work, void (CutWriter::*step)());
  void FinishFile();
  void Written();

  PartitionTables& tables_;
  const Options options_;
  const std::shared_ptr<Executor> strand_;
  const std::shared_ptr<Executor> files_;
  // Lets tasks find out that the writer is gone.
  const std::shared_ptr<CutWriter*> self_;
  // Snapshots of the sparse tables, and the view, which is handed to and fro.
  std::vector<std::unique_ptr<TableSnapshot>> snapshots_;
  std::shared_ptr<CutView> view_;
  bool writing_ = false;
  Done done_;
  // The table that Collect or NextRows has come to, and the first of its entries that is left.
  size_t table_ = 0;
  size_t entry_ = 0;
  std::shared_ptr<const PartitionFileInfo> written_;
  // Clock of the cut before the view's, since which dropped keys are known; and of the last one.
  absl::optional<uint64_t> before_;
  absl::optional<uint64_t> last_taken_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CHECKPOINT_CUT_WRITER_H_
