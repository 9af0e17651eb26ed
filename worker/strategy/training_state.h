#ifndef MUSTER_WORKER_STRATEGY_TRAINING_STATE_H_
#define MUSTER_WORKER_STRATEGY_TRAINING_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

class BackgroundCuts;
class LossScaler;

// Counts what a strategy moved and saw since it was created.
struct StrategyCounters {
  // Payload sent to servers (gradients, and keys of rows to pull) and received from them.
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  // Per training step: the most clocks of any other slot that the parameters it read could lack;
  // summed over the steps, and the largest.
  uint64_t staleness_sum = 0;
  uint64_t staleness_max = 0;
  // Payload of collective calls: of dense gradients and of gathered weights (without shard groups
  // 2(W-1)/W of the gradients' bytes, each way, summed over the ranks), and of all else that a step
  // exchanges (example counts, norms; keys and gradients of rows). Weights gathered after a step
  // count with the next one. What joining, cuts and evaluations move is in neither. Without
  // collective calls, other_bytes_* are the part of bytes_pushed and bytes_pulled that is not
  // dense.
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t other_bytes_sent = 0;
  uint64_t other_bytes_received = 0;
  // Payload of the calls of tensor ranks in passes, and of the gradients that they share.
  uint64_t tensor_bytes_sent = 0;
  uint64_t tensor_bytes_received = 0;
  // Payload of the messages between stages, and of gradients that two stages add.
  uint64_t stage_bytes_sent = 0;
  uint64_t stage_bytes_received = 0;
  // Time that hooks of training steps and look-ups were blocked on the data plane, be it for bytes
  // under way or for slower workers. The rest of a hook's time is this process's own work.
  double exposed_seconds = 0;
  // The norm of the last step's mean gradient over all parameters, before clipping; absent: this
  // rank did not measure it, or the step moved nothing.
  absl::optional<double> gradient_norm;
};

// One partition's file of a cut.
struct PartitionFile {
  uint32_t partition = 0;
  std::string path;
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

// The files of a cut.
struct CutFiles {
  // The files in order of partition. If the cut could not be written, partitions whose files were
  // not written have no path.
  std::vector<PartitionFile> by_partition;
  // Why the cut could not be written; empty: it was. The next cut does not depend on it.
  std::string failure;
};

enum class CutEnd { kCommitted, kTryAgain };

// Where a job's parameters are from step to step, wherever steps are computed: what training goes
// on from, and consistent cuts of it. Used by one thread, the trainer's.
class TrainingState {
 public:
  virtual ~TrainingState() = default;

  // Opens the tables and returns the clock to go on from: the clocks this slot has closed on every
  // partition. Called once, before everything else.
  virtual absl::StatusOr<uint64_t> Start() = 0;

  // Sets what the scheduled learning rate is multiplied by in the steps that begin from now on
  // (Adjustment.rate_factor); 1 until it is called. All slots set the same at a clock.
  virtual void SetRateFactor(double factor) = 0;

  // Takes the consistent cut at `clock`, which this slot has closed: waits for all slots, and for
  // the files. Called after EndStep of clock - 1, and before the gradients of a step at `clock`;
  // once more, after EndCut, where it could not be written. Replicas agree on whether it was.
  virtual absl::StatusOr<CutFiles> Cut(uint64_t clock) = 0;

  // Cuts that nobody waits for. They live as long as this object.
  virtual BackgroundCuts& background_cuts() = 0;

  // After each Cut: slot 0 says whether the coordinator has committed it, the others what they know
  // of its files. Where slots live without each other's state this is the answer; where replicas
  // are all there is of it, all get slot 0's, and none goes on (or ends) before the commit, which
  // takes as long as the coordinator does.
  virtual absl::StatusOr<CutEnd> EndCut(CutEnd mine) { return mine; }

  // Returns the loss scaler, for reports; null unless the job computes in f16. It goes on where the
  // checkpoint, or the group that the task joins, has come to; cuts hold its state.
  virtual const LossScaler* loss_scaler() const = 0;

  virtual StrategyCounters counters() const = 0;

  // If the last step's gradients were dropped, since its clock did not wait for this slot
  // (UpdateSpec.backup_workers): the clock that the slot goes on at. Absent: the step counts.
  virtual absl::optional<uint64_t> LeftOutUntil() const { return absl::nullopt; }
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_TRAINING_STATE_H_
