#ifndef MUSTER_SERVER_SHARD_MOVES_PARTITION_MOVE_H_
#define MUSTER_SERVER_SHARD_MOVES_PARTITION_MOVE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/shard/jobs/open_job.h"
#include "server/shard/jobs/open_jobs.h"
#include "server/shard/moves/partition_mover.h"

namespace muster {

namespace v1 {
class OpenTablesRequest;
class PartitionState;
}  // namespace v1

class HandOverSender;
class MovedPartition;

// Moves partitions of EVERY_PUSH jobs between servers. Their values in the store, their state and
// their log are all there is of them.
//
//   coordinator             old owner                         new owner
//   notes the move, COPYING
//     HAND_OVER ----------> permits it
//     ADOPT ------------------------------------------------> calls HandOver
//                           sends values and log while it works,
//                           closes the partition, marks it as
//                           leaving (synced), sends the rest -> writes all, syncs, then the state
//                                                              (synced), recovers the partition
//     <------------------------------------------------------- ADOPTED
//   notes MOVED, new map
//     RELEASE ------------> leaves the mark `left`, deletes all
//     <-------------------- RELEASED
//   forgets the move
//
// The coordinator's note decides: until it says MOVED, the old owner has the partition. A new owner
// recovers its copy as soon as it is whole, but serves only requests that name a later term than
// the move's. Only the note draws that term, so no shard map has it before. A task that has slept
// since the server had the partition once before names an earlier term.
//
// From the mark `leaving` on, the old owner executes nothing, also after a crash, until the
// coordinator's orders say how the move ended. If HAND_OVER goes without RELEASE, the move was
// given up, and the partition recovers from its own log. A new owner that crashes copies anew, or
// finds its copy whole. The mark `left` fences the old owner for good: whoever has an old shard map
// is sent away.
//
// All calls block, on the disk or the peer; operations on other partitions go on. Thread-safe. Must
// be gone, or out of use, before the engine is.
class PartitionMoves final : public PartitionMover {
 public:
  // Both arguments outlive the object.
  PartitionMoves(const ShardResources& resources, OpenJobs& jobs);

  absl::Status Permit(const std::vector<PartitionMove>& leaving,
                      const std::vector<PartitionMove>& released) override;
  absl::Status HandOver(const PartitionMove& move, ChunkSink send) override;
  absl::Status Adopt(const PartitionMove& move,
                     absl::FunctionRef<absl::Status(ChunkSink)> fetch) override;
  absl::Status Release(const PartitionMove& move) override;

 private:
  // Keeps two moves of one partition from running at a time.
  class Busy;
  // Job and partition.
  using Key = std::pair<std::string, uint32_t>;

  static Key KeyOf(const PartitionMove& move) { return {move.job_id, move.partition}; }
  bool IsPermitted(const PartitionMove& move) const;
  // Returns whether the orders have the move, as one from here that is under way or over.
  bool IsOrdered(const PartitionMove& move) const;

  // Do the work of HandOver, Adopt and Release, which return want of memory as an error.
  absl::Status HandOverIfPermitted(const PartitionMove& move, ChunkSink send);
  absl::Status TakeOver(const PartitionMove& move,
                        absl::FunctionRef<absl::Status(ChunkSink)> fetch);
  absl::Status DeleteReleased(const PartitionMove& move);

  // Hands a partition over whose move is permitted.
  absl::Status Send(const PartitionMove& move, ChunkSink send);
  // Sends what there is while the partition works.
  absl::Status SendWorking(const PartitionMove& move, PartitionExecutor& partition,
                           HandOverSender& sender);
  // Makes the partition stand still, for good unless the move is given up. Returns its stored
  // state.
  absl::StatusOr<std::unique_ptr<v1::PartitionState>> StandStill(const PartitionMove& move);
  // Marks a partition that stands still as leaving. `job` is null unless it is open.
  absl::StatusOr<std::unique_ptr<v1::PartitionState>> Mark(const PartitionMove& move,
                                                           const OpenJob* job);
  // Returns the state of a partition that may be handed over. `open`: its job is open.
  absl::StatusOr<std::unique_ptr<v1::PartitionState>> ReadLeaving(const PartitionMove& move,
                                                                  bool open) const;
  // Sends what is missing of a partition that stands still.
  absl::Status SendRest(const PartitionMove& move, v1::PartitionState state,
                        HandOverSender& sender);
  absl::Status SendLog(const PartitionMove& move, HandOverSender& sender);

  // Lets a partition that stands still go on, unless the orders have its move.
  absl::Status Resume(const PartitionMove& move);
  // Opens a partition that stands still without a mark. `turn` is its job's.
  absl::Status OpenAgain(const PartitionMove& move, const OpenJobs::Turn& turn);
  // Returns whether a whole copy is here. If not, claims the partition, so that one can be written.
  absl::StatusOr<bool> Prepare(const PartitionMove& move);
  // Makes the move's generation the one that is stored of the job, and deletes older ones: a late
  // drop of those leaves all that comes alone. Returns the partition's state, of that generation.
  // ABORTED: a later generation is stored. REQUIRES: the job's turn.
  absl::StatusOr<std::unique_ptr<v1::PartitionState>> Claim(const PartitionMove& move);
  // Writes a part of the copy with the job's turn, unless the claim has gone: with a drop of the
  // generation, or with the opening of a later one.
  absl::Status WhileClaimed(const PartitionMove& move, absl::FunctionRef<absl::Status()> write);
  // Recovers what was adopted. `tables` opened the job at the old owner; null: it was not open.
  absl::Status OpenAdopted(const PartitionMove& move, const v1::OpenTablesRequest* tables);

  MovedPartition Stored(const PartitionMove& move) const;

  const ShardResources& resources_;
  OpenJobs& jobs_;

  mutable absl::Mutex mutex_;
  // The orders: moves away from here, and copies to be deleted.
  std::set<PartitionMove> leaving_ ABSL_GUARDED_BY(mutex_);
  std::set<PartitionMove> released_ ABSL_GUARDED_BY(mutex_);
  // Number of orders that lacked something that was ordered before.
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 1;
  // Value of changes_ at which all that is marked was last found to be ordered, or went on.
  uint64_t settled_ ABSL_GUARDED_BY(mutex_) = 0;
  // Moves whose partitions may stand still without a mark in their state; only this map says so.
  std::map<Key, PartitionMove> unmarked_ ABSL_GUARDED_BY(mutex_);
  std::set<Key> busy_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_MOVES_PARTITION_MOVE_H_
