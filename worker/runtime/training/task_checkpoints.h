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
#include "common/base/clock.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"
#include "worker/runtime/training/background_commit.h"
#include "worker/strategy/background_cuts.h"
#include "worker/strategy/series_position.h"
#include "worker/strategy/training_state.h"

namespace muster {

// Takes a job's checkpoints on behalf of one slot's trainer.
//
// All checkpoints except the last are taken without waiting for files: every slot takes the cut and
// trains on. Rank 0 has the files written and commits them with the coordinator once all are
// durable, both while it trains. One checkpoint is under way at a time: rank 0's next cut waits for
// it (the other slots go on until they need rank 0's pushes or are at the same cut of its group).
// The last checkpoint is whole, and every slot waits until its files are durable.
//
// Every `full_every`th checkpoint is full; the others are deltas on the last one that this task has
// committed. So the first checkpoint of a new task or generation is full. A checkpoint is given up
// and logged if it cannot be written or committed now, if its views were lost, or if its base is no
// longer kept; the coordinator removes its files, and the next checkpoint is full. The last one is
// tried again until it is committed; the coordinator is told why each attempt failed.
//
// The destructor gives up what is under way and does not wait. Used by the trainer's thread.
class TaskCheckpoints {
 public:
  struct Options {
    // True on rank 0, which has files written and commits them.
    bool commits = false;
    // 0 and 1 make every checkpoint full.
    uint32_t full_every = 0;
    // The tables' schema, serialised.
    std::string schema;
    // DatasetInfo::preparation.
    std::string data_preparation;
    // Number of files of a cut that ranks write, one each; 0: all are partitions'.
    uint32_t rank_files = 0;
    // Writes one line to the job's log.
    std::function<void(absl::string_view)> log = [](absl::string_view) {};
    // Blocks for this long; false if the task must end.
    std::function<bool(absl::Duration)> wait;
  };

  // `state`, `coordinator` and `clock` outlive this object.
  TaskCheckpoints(Options options, TrainingState& state, CoordinatorClient& coordinator,
                  const Clock& clock);

  // Takes the checkpoint at `clock`, which this slot has closed. Errors are those of the state and
  // of the coordinator, including those of the checkpoint before.
  absl::Status Take(uint64_t clock, SeriesPosition position);

  // Goes on with the checkpoint under way without waiting, between steps. Errors as Take.
  absl::Status GoOn();

  // Blocks until the checkpoint under way is over. Errors as Take.
  absl::Status Finish();

  // Returns the coordinator's error if the last method failed with that; otherwise OK.
  const absl::Status& coordinator_status() const { return coordinator_status_; }

 private:
  v1::CommitCheckpointRequest CommitOf(uint64_t clock,
                                       const std::vector<PartitionFile>& files) const;
  // Takes the last checkpoint.
  absl::Status TakeLast(uint64_t clock);
  // Makes one attempt, up to the coordinator's answer. Returns why the attempt failed, as far as
  // this slot knows; empty if it did not.
  absl::StatusOr<std::string> TryLast(uint64_t clock);
  absl::optional<uint64_t> BaseOfNext() const;
  // Takes the files of the cut at under_way_, waiting for them, and starts their commit.
  absl::Status FilesWritten();
  // Takes the coordinator's answer to commit_.
  absl::Status Answered(const absl::Status& status);
  // Logs that the checkpoint under way is given up, reports it, and makes the next one full.
  void GiveUp(absl::string_view why);

  const Options options_;
  TrainingState& state_;
  BackgroundCuts& cuts_;
  CoordinatorClient& coordinator_;
  const Clock& clock_;
  // Time at which the last cut began.
  absl::Duration began_;
  // The clock of the checkpoint under way, and its base.
  absl::optional<uint64_t> under_way_;
  absl::optional<uint64_t> under_way_base_;
  // The files that were written of the checkpoint under way.
  std::vector<PartitionFile> files_;
  bool given_up_ = false;
  // The call that commits the checkpoint under way, or reports that it is given up.
  std::unique_ptr<BackgroundCommit> commit_;
  // The last checkpoint that this task committed, and the number of deltas since the last full one.
  absl::optional<uint64_t> last_;
  uint32_t deltas_ = 0;
  absl::Status coordinator_status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_TASK_CHECKPOINTS_H_
