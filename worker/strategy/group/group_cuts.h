#ifndef MUSTER_WORKER_STRATEGY_GROUP_GROUP_CUTS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GROUP_CUTS_H_

#include <cstdint>
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/background_cuts.h"
#include "worker/strategy/group/recovery/kept_shard.h"
#include "worker/strategy/group/recovery/rank_cut.h"
#include "worker/strategy/group/shard_place.h"
#include "worker/strategy/training_state.h"

namespace muster {

// Cuts of a group of ranks that train on while each rank writes its files (RankCut). In a hybrid
// job the servers write theirs of the same clock meanwhile.
//
// Who commits needs the files of all ranks. So every rank says in the exchange before a step
// (StepAgreement) whether its files are written. Once all have said so, or the next cut is due, all
// ranks tell one another their files in one collective call (ExchangeCut). Failure cases:
//
//   a rank cannot write                all learn of it in that call, delete what they wrote, and
//                                      train on; rank 0 reports it
//   the group ends before that call    nobody can have the cut committed, so each rank deletes its
//                                      files, and rank 0 logs that the cut is given up
//   the group ends in that call        rank 0 may or may not have all files, so no rank deletes
//                                      any; the coordinator finds what it has not committed
//
// Used by the strategy's thread.
class GroupCuts final : public BackgroundCuts {
 public:
  struct Parts {
    KeptShard& kept;
    ShardPlace& place;
    // The cuts of the half that is on servers; null: there is none.
    BackgroundCuts* servers = nullptr;
    // Makes calls of the group that belong to no step, with none of a step under way.
    std::function<absl::Status(absl::FunctionRef<absl::Status()> calls)> uncounted;
    std::function<void(absl::string_view)> log;
  };

  explicit GroupCuts(const Parts& parts);

  // Begins to work in a group, which outlives Leave.
  void Join(Communicator& world) { world_ = &world; }
  // Gives up the cut under way, and leaves the group, if there is one.
  void Leave();

  // Copies what the rank's files hold. Ends with a barrier, in which ranks wait for rank 0 to have
  // the cut before committed.
  absl::Status Take(uint64_t clock) override;
  // Has only the servers' files written; Take has begun with the ranks'. All are full.
  void Write(uint64_t clock, absl::optional<uint64_t> base) override;
  bool Written() const override;
  // Collective unless Written: the others come to it in Take or Settle.
  absl::StatusOr<CutFiles> AwaitFiles() override;

  // Returns whether this rank has written its files of the cut under way.
  bool rank_has_written() const { return cut_.under_way() && cut_.Written(); }
  // Tells all ranks all files of the cut under way, and so ends it; a collective call.
  absl::Status Exchange();
  // Does so if there is a cut under way.
  absl::Status Settle();

 private:
  absl::Status Copy(uint64_t clock);

  const Parts parts_;
  RankCut cut_;
  // The clock of the last cut.
  uint64_t cut_clock_ = 0;
  Communicator* world_ = nullptr;
  // Rank 0 has them from Exchange to AwaitFiles.
  absl::optional<CutFiles> files_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GROUP_CUTS_H_
