#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_WEIGHT_GATHERER_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_WEIGHT_GATHERER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "common/partition/unit_gathers.h"
#include "common/partition/unit_places.h"
#include "common/step/action.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/model_parameters.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/group/gradients/slice_ops.h"
#include "worker/strategy/group/gradients/unit_memory.h"

namespace muster {

struct WeightGathererOptions {
  // How weights are held. kWhole: every unit has a place of its own. kInFlight: at most two units
  // have memory at a time, besides units that others are tied to.
  UnitPlaces::Holding holding = UnitPlaces::Holding::kWhole;
  // With kInFlight: the memory in which further units have places of their own.
  uint64_t kept_bytes = 0;
  // The timeout of each part's call, from when it is the call's turn.
  absl::Duration timeout = absl::Minutes(10);
  // Waits for a part's call.
  WaitForWork wait = WaitForever;
  // The operations on the memory of slices and gathered units, which is the communicator's. Outlive
  // the gatherer.
  SliceOps* ops = &HostSliceOps();
  // The ranks that divide this rank's experts. Outlives the gatherer. Null: there are none besides
  // this rank.
  Communicator* expert_shards = nullptr;
};

// Gathers the weights of a shard group's ranks, unit by unit, in the type that the model computes
// with (TensorSpec::compute): each rank puts its slice of each of the unit's parts into its place,
// and an all-gather in place brings the others'. In a group of one the slice is all there is, and
// there are no calls.
//
//   Start(u, weights) ahead of time; Await(u); the model reads parameters(); …
//   Outdate; own slices change; and again
//
// Frozen parts that have places of their own are gathered once.
//
// All ranks start the same units in the same order. A rank sends (S-1)/S of the part, with padding,
// by kDirect and kRing alike; all-gathers have no other algorithm. Used by one thread.
class WeightGatherer {
 public:
  // Creates the gatherer; a collective call. The communicator must outlive the gatherer; others may
  // use it between any two calls of the gatherer, in the same order on all ranks.
  // FailedPrecondition: the group's size is not the number of shards. InvalidArgument: a tensor is
  // tied to one that is held in 16 bits, and is read in another type. Otherwise errors are the
  // communicator's.
  static absl::StatusOr<std::unique_ptr<WeightGatherer>> Create(
      Communicator& shard_group, const ShardedTensors& sharded,
      const WeightGathererOptions& options);

  // Ends calls that nobody has awaited in Abort, for the whole group, so that no rank waits for
  // this one. To leave a group that goes on, call Outdate first.
  ~WeightGatherer();

  WeightGatherer(const WeightGatherer&) = delete;
  WeightGatherer& operator=(const WeightGatherer&) = delete;

  // Returns the parameters by tensor index, tied tensors included: f32 parts as `values`, 16-bit
  // parts as `rounded`, and nothing else. (A 16-bit tensor that is tied to one of an f32 part thus
  // lacks its copy, which LowPrecisionCopies makes.) Addresses never change. Only units that are
  // held and were awaited may be read.
  ModelParameters parameters() const { return {values_, rounded_}; }

  // Says which units share a place and which are tied to which.
  const UnitPlaces& places() const { return memory_->places(); }

  // Returns where this rank's slice of an f32 part is gathered: shards().parts()[part].slice
  // elements, padding included, zero at first. With kWhole the weights can live here.
  absl::Span<float> own_slice(int part);

  // Copies or rounds this rank's slices of the unit's parts into their places, and starts to gather
  // them, after all that the computation has queued (SliceOps). `weights` has this rank's slices by
  // part, with padding; those of other units are not read. A slice that is own_slice(part) itself
  // is not copied. A no-op if the unit is held. The unit that had the place before is no longer
  // held and must not be read. Blocks while its calls are under way.
  void Start(int unit, absl::Span<const absl::Span<const float>> weights);

  // Blocks until the unit's parameters are readable, and returns the first error of its calls or of
  // the computation.
  // Units that it is tied to are awaited separately. REQUIRES: Holds(unit).
  absl::Status Await(int unit);

  // Starts the unit and those that it is tied to, unless they are held, and with kInFlight the unit
  // that comes next in this direction, which takes the place of the unit before this one. Blocks
  // until the unit's parameters are readable, tied ones included. Errors are those of Await.
  absl::Status Acquire(int unit, Direction direction,
                       absl::Span<const absl::Span<const float>> weights);

  // Returns true if the unit was started after the last Outdate and its place is still its own, or
  // if it has no parameters.
  bool Holds(int unit) const;

  // Forgets all units, because their weights are about to change. Blocks until no call is under
  // way, so that own slices may be written.
  void Outdate();

 private:
  WeightGatherer(Communicator& shard_group, const ShardedTensors& sharded,
                 const WeightGathererOptions& options, std::unique_ptr<UnitMemory> memory);

  // Moves the unit's own slices into place, and starts its calls. REQUIRES: gathers_ says so.
  void Gather(int unit, absl::Span<const absl::Span<const float>> weights);

  // Returns the group that divides a part; null: this rank has all of it.
  Communicator* GroupOf(const ShardLayout::Part& part) const;
  // Returns the unit's parts that are to be gathered: all but those that are frozen and lie in
  // their own place since they were gathered first. Notes that they are.
  std::vector<int> ChangedParts(int unit);
  // Returns the first byte of this rank's slice in the part's place.
  std::byte* Own(int part) const;

  // Blocks until none of the unit's calls is under way, and returns the first error.
  absl::Status End(int unit);

  Communicator& shard_group_;
  const ShardedTensors sharded_;
  const WeightGathererOptions options_;
  const std::unique_ptr<UnitMemory> memory_;
  // Weights by tensor.
  std::vector<absl::Span<const float>> values_;
  std::vector<const void*> rounded_;
  // By part: the call that gathers it, until it was waited for.
  std::vector<std::shared_ptr<Work>> works_;
  // Says by part whether a frozen part that has a place of its own was gathered.
  std::vector<bool> frozen_in_place_;
  // By unit, the label of its calls.
  std::vector<std::string> labels_;
  // Says which units are held.
  UnitGathers gathers_;
  // The first error of the computation. Nothing is started after it.
  absl::Status failure_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_WEIGHT_GATHERER_H_
