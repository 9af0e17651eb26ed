#ifndef MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_RANK_CUT_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_RANK_CUT_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/checkpoint/storage.h"
#include "common/tables/table_checkpoint.h"
#include "worker/strategy/content_copy.h"
#include "worker/strategy/training_state.h"

namespace muster {

// One rank's files of one cut at a time, which a thread writes from a copy while the rank trains:
//
//   Begin    copies, and starts to write
//   Written  … between steps
//   Await    takes the files over; or GiveUp, which deletes them
//
// Files that the thread could not all write are deleted by it, and so are those of a cut that is
// given up. What Await has returned is the caller's to delete, or to have committed. Used by one
// thread.
class RankCut {
 public:
  // `storage` outlives this object. With `offload_folder` the copy is in a file (ContentCopy).
  RankCut(CheckpointStorage& storage, std::string offload_folder);
  // Gives up the cut under way, and waits for its thread.
  ~RankCut();

  // Copies the contents, and starts to write their files under the checkpoint root. Waits for the
  // thread of a cut that was given up. REQUIRES: no cut is under way.
  void Begin(absl::string_view root, std::vector<PartitionContent> contents);

  bool under_way() const { return under_way_; }
  // Returns whether Await would not block. REQUIRES: a cut is under way.
  bool Written() const;
  // Ends the cut: waits until its files are durable, and returns them. Errors are the storage's and
  // ContentCopy's. REQUIRES: as above.
  absl::StatusOr<std::vector<PartitionFile>> Await();
  // Ends the cut under way, if there is one, without waiting.
  void GiveUp();
  // Deletes files that Await has returned, before the next Begin. A file that stays is a leftover,
  // which the coordinator finds later.
  void Delete(absl::Span<const PartitionFile> files);

 private:
  bool given_up() const;
  // Writes the files of copy_.
  void Write();
  void End(absl::Status status, std::vector<PartitionFile> files);

  CheckpointStorage& storage_;
  // Written to only while there is no thread.
  ContentCopy copy_;
  std::string root_;
  // The folder of the cut's checkpoint.
  std::string folder_;
  bool under_way_ = false;
  mutable absl::Mutex mutex_;
  bool written_ ABSL_GUARDED_BY(mutex_) = false;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  // The outcome, once written.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<PartitionFile> files_ ABSL_GUARDED_BY(mutex_);
  // The last member: it is joined before the others are destroyed.
  std::jthread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_RANK_CUT_H_
