#ifndef MUSTER_WORKER_RUNTIME_TRAINING_TASK_CHECKPOINTS_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_TASK_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"
#include "worker/runtime/training/background_commit.h"
#include "worker/strategy/background_cuts.h"
#include "worker/strategy/series_position.h"
#include "worker/strategy/training_state.h"

namespace muster {

// Takes a job's checkpoints on behalf of one slot's trainer.
//
// Where the state can, all but the last are taken without waiting for files: every slot takes
// the cut and trains on; the slot that speaks for the job has the files written and, once all are
// durable, commits them with the coordinator, both while it trains. One checkpoint is under way at
// a time: the next cut waits for it on that slot (the others go on until they need its pushes).
// The last one is whole, and every slot waits until its files are durable.
//
// Every `full_every`th checkpoint is full; the others are deltas on the last one that this task has
// committed. So a task that took its slot over begins with a full one, as does a generation. A
// checkpoint that cannot be written or committed now, whose views were lost, or whose base is not
// kept any more, is given up and logged; the coordinator removes what was written of it, and the
// next one is full. The last one is tried again until it is there; the coordinator is told what
// for.
//
// What is under way when the object is destroyed is given up without a wait. Used by the trainer's
// thread.
class TaskCheckpoints {
 public:
  struct Options {
    // Whether this slot speaks for the job.
    bool commits = false;
    // 0 and 1: all are full.
    uint32_t full_every = 0;
    // The tables', serialised.
    std::string schema;
    // DatasetInfo::preparation.
    std::string data_preparation;
    // One line for the job's log.
    std::function<void(absl::string_view)> log = [](absl::string_view) {};
    // Blocks for a while. False: the task is to end.
    std::function<bool(absl::Duration)> wait;
  };

  // What is lent outlives it.
  TaskCheckpoints(Options options, TrainingState& state, CoordinatorClient& coordinator);

  // The checkpoint at `clock`, which this slot has closed. Errors: those of the state and of the
  // coordinator, also of the checkpoint before.
  absl::Status Take(uint64_t clock, SeriesPosition position);

  // Between steps: goes on with the checkpoint under way, without waiting. Errors as Take.
  absl::Status GoOn();

  // Waits for the checkpoint under way. Errors as Take.
  absl::Status Finish();

  // What the coordinator said, where that is what a method failed with; otherwise OK.
  const absl::Status& coordinator_status() const { return coordinator_status_; }

 private:
  v1::CommitCheckpointRequest CommitOf(uint64_t clock,
                                       const std::vector<PartitionFile>& files) const;
  absl::Status TakeWhole(uint64_t clock, SeriesPosition position);
  // One attempt, up to what the coordinator answered of it. Not empty: why it failed.
  absl::StatusOr<std::string> TryWhole(uint64_t clock, SeriesPosition position);
  absl::optional<uint64_t> BaseOfNext() const;
  // The files of the cut at under_way_ are there.
  absl::Status FilesWritten();
  // The coordinator has answered commit_.
  absl::Status Answered(const absl::Status& status);
  // The next one is full.
  void LogGivenUp(uint64_t clock, absl::string_view why);
  void GiveUp(absl::string_view why);

  const Options options_;
  TrainingState& state_;
  // Null: the state takes whole cuts alone.
  BackgroundCuts* const cuts_;
  CoordinatorClient& coordinator_;
  // The clock of the checkpoint under way, and its base.
  absl::optional<uint64_t> under_way_;
  absl::optional<uint64_t> under_way_base_;
  // Its files, once they are written, or as far as they were.
  std::vector<PartitionFile> files_;
  bool given_up_ = false;
  // Its commit, after its files are written; or that it is given up.
  std::unique_ptr<BackgroundCommit> commit_;
  // The last checkpoint that was committed here, and the deltas since the last full one.
  absl::optional<uint64_t> last_;
  uint32_t deltas_ = 0;
  absl::Status coordinator_status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_TASK_CHECKPOINTS_H_
