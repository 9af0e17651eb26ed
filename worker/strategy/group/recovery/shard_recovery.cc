#include "worker/strategy/group/recovery/shard_recovery.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/partition/dense_layout.h"
#include "worker/strategy/group/exchange/array_calls.h"
#include "worker/strategy/group/recovery/resharding.h"
#include "worker/strategy/group/recovery/state_broadcast.h"

namespace muster {
namespace {

// The timeout of calls in which ranks may have to wait for the transfers of others.
constexpr absl::Duration kTransferTimeout = absl::Minutes(10);

// A rank's holding as it travels, without copies. All ranks run the same version of the program.
struct OwnHolding {
  absl::optional<uint64_t> clock;
  bool has_sums = false;
  int shards = 0;
  int shard = 0;
  uint64_t daemon = 0;
  uint64_t copies = 0;
};

}  // namespace

ShardRecovery::ShardRecovery(const v1::TablesSchema& schema, KeptShard& shard,
                             const Options& options)
    : options_(options), shard_(shard), copies_(schema, shard.state().shard()) {}

RankHolding ShardRecovery::holding() const {
  RankHolding holding;
  holding.clock = shard_.clock();
  holding.has_sums = has_sums_ && holding.clock.has_value();
  holding.copies = copies_.holdings(has_sums_);
  if (options_.divides_anew) {
    holding.shards = shard_.state().shard().mesh.world_size();
    holding.shard = shard_.state().shard().rank;
  }
  return holding;
}

absl::Status ShardRecovery::SendRows(Communicator& world, absl::Span<const RowSum> rows,
                                     absl::Duration timeout, const WaitForWork& wait) {
  return copies_.ExchangeRows(world, rows, timeout, wait);
}

absl::Status ShardRecovery::SumsComplete(Communicator& world,
                                         absl::Span<const absl::Span<float>> sums,
                                         absl::Duration timeout, const WaitForWork& wait) {
  has_sums_ = false;
  MUSTER_RETURN_IF_ERROR(copies_.ExchangeSums(world, sums, timeout, wait));
  has_sums_ = true;
  return absl::OkStatus();
}

absl::Status ShardRecovery::SendDirections(Communicator& world, absl::Duration timeout,
                                           const WaitForWork& wait) {
  return copies_.ExchangeDirections(world, shard_.state(), timeout, wait);
}

void ShardRecovery::StepMade(const StepOutcome& outcome) {
  has_sums_ = false;
  outcome_ = outcome;
  copies_.MakeStep(outcome);
}

void ShardRecovery::KeepSums(std::vector<absl::Span<float>>& sums) {
  if (!has_sums_) {
    sums.clear();
    return;
  }
  const ShardState& state = shard_.state();
  kept_sums_ = std::make_unique<Arena>(state.trained_shards().slice_elements());
  std::vector<absl::Span<float>> kept = state.PartSlices(kept_sums_->values());
  for (size_t part = 0; part < kept.size(); ++part) {
    std::copy(sums[part].begin(), sums[part].end(), kept[part].begin());
  }
  sums = std::move(kept);
}

ShardState* ShardRecovery::Find(int shard) {
  const bool own = shard_.clock().has_value() && shard == shard_.state().shard().rank;
  return own ? &shard_.state() : copies_.Find(shard);
}

void ShardRecovery::ForgetSums() {
  has_sums_ = false;
  kept_sums_ = nullptr;
}

void ShardRecovery::ForgetKept() {
  ForgetSums();
  outcome_.reset();
  copies_.Clear();
}

absl::Status ShardRecovery::Exchange(Communicator& world, Meeting& meeting) const {
  const RankHolding mine = holding();
  const OwnHolding own = {mine.clock, mine.has_sums,   mine.shards,
                          mine.shard, options_.daemon, mine.copies.size()};
  std::vector<OwnHolding> all(world.size());
  MUSTER_RETURN_IF_ERROR(world.Run(
      AllGather(absl::MakeConstSpan(&own, 1), all.data(), kTransferTimeout, "what ranks have")));
  std::vector<size_t> counts;
  size_t total = 0;
  for (const OwnHolding& each : all) {
    meeting.holdings.push_back({.clock = each.clock,
                                .has_sums = each.has_sums,
                                .shards = each.shards,
                                .shard = each.shard});
    meeting.daemons.push_back(each.daemon);
    counts.push_back(each.copies * sizeof(RankHolding::Copy));
    total += each.copies;
  }
  if (total == 0) return absl::OkStatus();
  std::vector<RankHolding::Copy> all_kept(total);
  CollectiveCall gather = AllGather(absl::MakeConstSpan(mine.copies), all_kept.data(),
                                    kTransferTimeout, "what copies ranks keep");
  gather.counts = counts;
  MUSTER_RETURN_IF_ERROR(world.Run(gather));
  absl::Span<const RankHolding::Copy> rest = all_kept;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto kept = rest.first(all[rank].copies);
    meeting.holdings[rank].copies.assign(kept.begin(), kept.end());
    rest.remove_prefix(kept.size());
  }
  return absl::OkStatus();
}

absl::Status ShardRecovery::RollForward(
    Communicator& world, const RecoveryPlan& plan,
    absl::FunctionRef<absl::Status(const StepOutcome&)> make_step) {
  StepOutcome outcome = outcome_.value_or(StepOutcome());
  MUSTER_RETURN_IF_ERROR(world.Run(Broadcast(plan.leader, absl::MakeSpan(&outcome, 1),
                                             kTransferTimeout, "outcome of the step")));
  if (outcome.clock + 1 != plan.clock) {
    return absl::InternalError(absl::StrCat("rank ", plan.leader, " is at step ", plan.clock,
                                            ", but knows only how step ", outcome.clock, " ended"));
  }
  const bool behind = has_sums_ && shard_.clock() == outcome.clock;
  if (!behind) {
    outcome_ = outcome;
    return absl::OkStatus();
  }
  options_.log(absl::StrCat("rank ", world.rank(), " makes step ", outcome.clock,
                            " with the sums that it kept"));
  return make_step(outcome);
}

absl::Status ShardRecovery::Move(Communicator& world, const ShardTransfer& transfer) {
  if (world.rank() == transfer.from) {
    options_.log(absl::StrCat("rank ", transfer.from, " sends shard ", transfer.shard, " to rank ",
                              transfer.to));
    return SendState(world, transfer.to, kTransferTimeout, *Find(transfer.shard));
  }
  if (world.rank() != transfer.to) return absl::OkStatus();
  if (transfer.shard == shard_.state().shard().rank) {
    // They are of another clock.
    ForgetSums();
    return shard_.Receive(world, transfer.from);
  }
  return copies_.Receive(world, transfer.from, transfer.shard, kTransferTimeout);
}

absl::Status ShardRecovery::Become(const MeshPosition& shard) {
  const MeshPosition own = shard_.state().shard();
  if (own == shard) return absl::OkStatus();
  if (own.mesh != shard.mesh) copies_.Divide(shard);
  return shard_.Divide(shard);
}

absl::Status ShardRecovery::MakeNewShards(Communicator& world, const RecoveryPlan& plan,
                                          const MeshPosition& shard) {
  // All are at one clock, so nobody makes a step with them any more.
  ForgetSums();
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<ShardState> state, shard_.MakeState(shard));
  std::vector<DenseLayout> layouts;
  for (const int rank : shard.mesh.Group(0, kPartAxes)) {
    MUSTER_ASSIGN_OR_RETURN(DenseLayout layout, shard_.LayoutOf(shard.Of(rank)));
    layouts.push_back(std::move(layout));
  }
  const int coordinates = static_cast<int>(plan.former.size());
  std::vector<ShardState*> sent;
  for (int coordinate = 0; coordinate < coordinates; ++coordinate) {
    const MeshPosition former = shard_.ShardOfRank(coordinate, coordinates);
    ShardState* source = nullptr;
    if (plan.former[coordinate] == world.rank()) {
      source = Find(coordinate);
      sent.push_back(source);
    }
    MUSTER_RETURN_IF_ERROR(SendFormerShard(world, plan.former[coordinate],
                                           {former, layouts[former.at(kPartAxes)]}, source,
                                           {.timeout = kTransferTimeout}, *state));
  }
  MUSTER_RETURN_IF_ERROR(SendFormerRows(world, sent, {.timeout = kTransferTimeout}, *state));
  state->set_clock(plan.clock);
  MUSTER_RETURN_IF_ERROR(world.Run(Barrier(kTransferTimeout, "all have new shards")));
  if (world.rank() == 0) {
    options_.log(absl::StrCat("the shards of ", coordinates, " ranks are divided anew among ",
                              world.size(), " at step ", plan.clock));
  }
  copies_.Divide(shard);
  shard_.Take(std::move(state));
  return absl::OkStatus();
}

absl::Status ShardRecovery::Recover(Communicator& world, const MeshPosition& shard,
                                    absl::FunctionRef<absl::Status(const StepOutcome&)> make_step) {
  Meeting meeting;
  MUSTER_RETURN_IF_ERROR(Exchange(world, meeting));
  const Mesh mesh = shard.mesh.WithCopies(world.size() / shard.mesh.world_size());
  const absl::StatusOr<RecoveryPlan> plan = PlanRecovery(meeting.holdings, mesh);
  if (!plan.ok()) {
    return absl::InternalError(
        absl::StrCat("the round was to go on in place, but ", plan.status().message()));
  }
  if (plan->rolls_forward) MUSTER_RETURN_IF_ERROR(RollForward(world, *plan, make_step));
  // A newcomer that has its shard has the loss scale, too, whatever happens next.
  MUSTER_RETURN_IF_ERROR(shard_.BroadcastLossScale(world, plan->leader));
  if (!plan->former.empty()) {
    MUSTER_RETURN_IF_ERROR(MakeNewShards(world, *plan, shard));
    for (RankHolding& holding : meeting.holdings) holding.copies.clear();
  } else {
    // Only a rank without a shard may have to become another.
    MUSTER_RETURN_IF_ERROR(Become(shard));
  }
  for (const ShardTransfer& transfer : plan->transfers) {
    MUSTER_RETURN_IF_ERROR(Move(world, transfer));
  }
  ForgetSums();
  return RenewCopies(world, meeting, plan->clock);
}

absl::Status ShardRecovery::HandOver(Communicator& world, absl::Span<const int> leaving) {
  const Mesh mesh = shard_.state().shard().mesh.WithCopies(
      world.size() / shard_.state().shard().mesh.world_size());
  for (const ShardTransfer& transfer : PlanHandOver(mesh, leaving)) {
    MUSTER_RETURN_IF_ERROR(Move(world, transfer));
  }
  // Nobody leaves before all copies are there.
  return world.Run(Barrier(kTransferTimeout, "shards are handed over"));
}

absl::Status ShardRecovery::Forget(const MeshPosition& shard) {
  ForgetKept();
  return Become(shard);
}

absl::Status ShardRecovery::MakeCopies(Communicator& world) {
  if (!options_.redundant) return absl::OkStatus();
  Meeting meeting;
  MUSTER_RETURN_IF_ERROR(Exchange(world, meeting));
  return RenewCopies(world, meeting, shard_.state().clock());
}

absl::Status ShardRecovery::RenewCopies(Communicator& world, const Meeting& meeting,
                                        uint64_t clock) {
  std::vector<int> keepers(world.size(), -1);
  // The tensor ranks of a lost rank leave a round that goes on without it.
  const int group = options_.divides_anew ? shard_.state().shard().size(kLayerAxes) : 1;
  if (options_.redundant) keepers = Keepers(meeting.daemons, group);
  for (const ShardTransfer& transfer : PlanCopies(meeting.holdings, keepers, clock)) {
    MUSTER_RETURN_IF_ERROR(Move(world, transfer));
  }
  // Former keepers drop nothing before the new ones have everything, and no rank begins a step,
  // whose calls have short timeouts, while others still wait for their shards.
  MUSTER_RETURN_IF_ERROR(world.Run(Barrier(kTransferTimeout, "all have their shards")));
  if (options_.redundant && world.rank() == 0 && keepers[0] < 0) {
    options_.log(
        "all ranks are on one worker daemon, so no rank keeps a copy of another's shard: "
        "the loss of any rank takes the job back to its last checkpoint");
  }
  copies_.Settle(std::move(keepers), world.rank());
  return absl::OkStatus();
}

}  // namespace muster
