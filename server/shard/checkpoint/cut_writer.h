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
// So what stops the partition is the copy of 2 MiB at a time, and what training costs beyond is a
// copy of each block and row that changes before it was read out. Rows are in ascending order of
// key: equal tables give equal files.
//
// A delta leaves out rows whose last use is before its base: every update since that cut has a
// clock of at least the base's, every one before it a lower one. Keys of rows that expired since
// the cut before are listed in it, whether they have been dropped by then or not; where that cut is
// not the base (or was taken by an earlier life of the server), or too many went to be noted, the
// file is written whole.
//
// All methods on the strand.
class CutWriter {
 public:
  struct Options {
    CheckpointStorage* storage = nullptr;
    CrashPoint* crash_point = nullptr;
  };
  using Done = std::function<void(const absl::StatusOr<PartitionFileInfo>& file)>;

  // The tables must outlive it. `strand` runs tasks one at a time and never together with the
  // methods here; `files` may block. What is under way when the writer goes is given up: its file
  // never appears.
  CutWriter(PartitionTables& tables, Options options, std::shared_ptr<Executor> strand,
            std::shared_ptr<Executor> files);
  ~CutWriter();

  // Of the view that is held.
  absl::optional<uint64_t> clock() const;
  bool writing() const { return writing_; }
  // Of what was copied aside for it.
  size_t memory_bytes() const;

  // Holds the tables as they are now, in place of any view before. REQUIRES: not writing(). Errors
  // are those of the store.
  absl::Status Take(uint64_t clock);

  // Lets the view go. REQUIRES: not writing().
  void Drop();

  // Adds to the view what a slot's half-precision pushes have yet to carry over, of all dense
  // blocks one after another. REQUIRES: a view; not writing().
  void AddResidual(uint32_t slot, std::shared_ptr<const float> values);
  // Slots that were added.
  size_t residuals() const;
  // The same for a slot's loss scale.
  void AddLossScale(const SlotLossScale& scale);
  size_t loss_scales() const;

  // Writes the view, then lets it go and calls `done`, on the strand. REQUIRES: a view; not
  // writing().
  void Write(absl::optional<uint64_t> base, Done done);

 private:
  // Posts a task that is dropped if this writer is gone by then.
  void OnStrand(void (CutWriter::*step)());
  void Collect();
  void NextRows();
  void Finish(const absl::StatusOr<PartitionFileInfo>& file);
  // Has `work` done on a thread for files; then, unless it failed, comes `step`.
  void OnFiles(std::function<absl::Status(CutView&)> work, void (CutWriter::*step)());
  void FinishFile();
  void Written();

  PartitionTables& tables_;
  const Options options_;
  const std::shared_ptr<Executor> strand_;
  const std::shared_ptr<Executor> files_;
  // Lets tasks find out that the writer is gone.
  const std::shared_ptr<CutWriter*> self_;
  // Of the tables, by sparse table; the view itself is handed to and fro.
  std::vector<std::unique_ptr<TableSnapshot>> snapshots_;
  std::shared_ptr<CutView> view_;
  bool writing_ = false;
  Done done_;
  // The table that Collect or NextRows has come to, and the first of its entries that is left.
  size_t table_ = 0;
  size_t entry_ = 0;
  std::shared_ptr<const PartitionFileInfo> written_;
  // The cut taken before the view's, from which on its dropped keys are known; and the last one.
  absl::optional<uint64_t> before_;
  absl::optional<uint64_t> last_taken_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CHECKPOINT_CUT_WRITER_H_
