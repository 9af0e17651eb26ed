#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_GRADIENT_SCATTERER_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_GRADIENT_SCATTERER_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "common/kernels/accumulation.h"
#include "common/partition/unit_places.h"
#include "common/tensor/dtype.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/layer.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/group/gradients/gradient_reducer.h"
#include "worker/strategy/group/gradients/slice_ops.h"
#include "worker/strategy/group/gradients/unit_memory.h"
#include "worker/strategy/series_position.h"

namespace muster {

struct GradientScattererOptions {
  // How gradients are held. kWhole: the gradients of a step's micro-batches add up where they are
  // written, and are scattered in the last micro-batch. kInFlight: at most two units have memory at
  // a time, besides units that others are tied to; each unit is scattered in every micro-batch, and
  // this rank's slices add up.
  UnitPlaces::Holding holding = UnitPlaces::Holding::kWhole;
  // The type in which gradients travel; see GradientReducerOptions. kBf16 only in host memory.
  DType wire = DType::kF32;
  // True: sums are taken in rank order, and have the bits of a deterministic all-reduce.
  bool deterministic = false;
  // The timeout of each part's call, from when it is the call's turn.
  absl::Duration timeout = absl::Minutes(10);
  // Waits for a call.
  WaitForWork wait = WaitForever;
  // The ranks that have the same slices in other shard groups. Outlives the scatterer. Null, or a
  // group of one: there are no replicas.
  Communicator* replicas = nullptr;
  // The ranks that divide this rank's experts, and those that have the same slices of experts. Both
  // outlive the scatterer. Null: there are none besides this rank.
  Communicator* expert_shards = nullptr;
  Communicator* expert_replicas = nullptr;
  // The operations on the memory of gradients, which is the communicators'. Outlive the scatterer.
  SliceOps* ops = &HostSliceOps();
  // With kInFlight, memory for the slice space, if it exists; otherwise Create allocates it in the
  // host's memory.
  absl::Span<float> sums;
};

// Sums a step's gradients over the ranks of a shard group while backward goes on, and leaves each
// rank the sums of its slices; with replicas, the sums over all of them. A part is scattered as
// soon as the last unit that writes into it is ready. For a tensor that others are tied to, that is
// the one of these units that backward reaches last.
//
//   for each micro-batch: BeginMicroBatch;
//     for each unit from last to first: BeforeWrite; write gradients(); UnitReady
//   Finish; read sums()
//
// A group of one sends nothing. Otherwise a rank sends (S-1)/S of the part, with padding, in each
// call, by kDirect and kRing alike; reduce-scatters have no other algorithm. Used by one thread.
class GradientScatterer {
 public:
  // Creates the scatterer: a collective call of the shard group, then of the replicas. The
  // communicators must outlive the scatterer. Others may use them only between Finish and
  // UnitReady, or in the same order on all ranks. FailedPrecondition: the group's size is not the
  // number of shards. Otherwise errors are the communicator's.
  static absl::StatusOr<std::unique_ptr<GradientScatterer>> Create(
      Communicator& shard_group, const ShardedTensors& sharded,
      const GradientScattererOptions& options);

  // Ends calls under way in Abort, for the whole group, so that no rank waits for this one.
  ~GradientScatterer();

  GradientScatterer(const GradientScatterer&) = delete;
  GradientScatterer& operator=(const GradientScatterer&) = delete;

  // Returns the gradients by tensor index, tied tensors included. Addresses never change. A unit's
  // gradients are writable from BeforeWrite to UnitReady.
  GradientSpans gradients() const { return gradients_; }

  // Begins a micro-batch. The first one since Create or Finish begins a step. From then on the
  // contents of sums() are undefined.
  void BeginMicroBatch(SeriesPosition position);

  // Returns how backward stores a unit's gradients in this micro-batch. With kWrite, the unit of
  // several tied ones that backward reaches first writes the tensor's gradient, and the others add
  // to it (Strategy::GradientStore).
  Accumulation GradientStore() const;

  // Blocks until the memory of the unit's gradients, tied tensors included, is free: until the
  // gradients written there before have been scattered and added up. FailedPrecondition: another
  // unit was written there and is not ready yet. Otherwise errors are the communicator's.
  absl::Status BeforeWrite(int unit);

  // Tells that backward has left the unit, and starts to scatter the parts that are complete in
  // this step. To be called for every unit that has tensors, tied ones included, from the last to
  // the first.
  void UnitReady(int unit);

  // Waits for all calls; sums() then hold this rank's share, perhaps once queued operations are
  // done. Returns the first error, once no call is under way. REQUIRES: every unit was ready in the
  // last micro-batch.
  absl::Status Finish();

  // Returns this rank's slice of the sums, by part; its padding is zero. Addresses never change.
  // With kWhole the sums lie in the gradients' memory.
  absl::Span<const absl::Span<float>> sums() const { return sums_; }

 private:
  struct Part {
    int index = 0;
    int unit = 0;
    std::string label;
    // The scatter under way: whether it adds to the sums of earlier micro-batches, its micro-batch,
    // and its call, which is null in a group of one.
    bool adds = false;
    SeriesPosition position = SeriesPosition::kLast;
    std::shared_ptr<Work> work;
  };
  struct Sent;

  GradientScatterer(Communicator& shard_group, const ShardedTensors& sharded,
                    const GradientScattererOptions& options, std::unique_ptr<UnitMemory> memory);

  // Allocates everything except the gradients.
  absl::Status Allocate();
  // Returns the number of the unit in the replicas' buckets, which are in the order of parts_.
  int BucketUnit(size_t position) const { return static_cast<int>(parts_.size() - 1 - position); }

  // Returns the group that divides a part; null: this rank has all of it.
  Communicator* GroupOf(const ShardLayout::Part& part) const;
  // Returns the first element of this rank's slice of a part.
  uint64_t OwnBegin(const ShardLayout::Part& part) const;
  // Blocks until no call in the unit's place is under way.
  absl::Status FreeMemory(int unit);
  Sent SentOf(const Part& part) const;
  void Scatter(size_t position);
  // Waits for the first of under_way_ and adds its result to the sums. Errors go to failure_.
  void CollectNext();

  Communicator& shard_group_;
  const ShardedTensors sharded_;
  const GradientScattererOptions options_;
  const std::unique_ptr<UnitMemory> memory_;
  // The values that are sent, at half the offsets. Only with kBf16.
  std::unique_ptr<CollectiveBuffer> wire_memory_;
  // Sums over the replicas; null without replicas.
  std::unique_ptr<GradientReducer> reducer_;
  // The slice space. Only with kInFlight, unless the caller gives it or, with replicas, the reducer
  // has it.
  std::unique_ptr<Arena> own_sums_;

  // Gradients by tensor.
  std::vector<absl::Span<float>> gradients_;
  // Sums by part.
  std::vector<absl::Span<float>> sums_;
  // The parts, in the order in which each micro-batch scatters them.
  std::vector<Part> parts_;
  struct Interval {
    size_t begin = 0;
    size_t end = 0;
  };
  // By unit: the interval of parts_ that are complete with it.
  std::vector<Interval> ready_;

  // The unit that is written in each shared place, from BeforeWrite to UnitReady; -1: none.
  int writers_[2] = {-1, -1};

  // The number of micro-batches since the last Finish.
  int micro_batches_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
  // Positions in parts_, in the order in which they were started.
  std::deque<size_t> under_way_;
  // The first error, of a call or of the computation. The group has ended with it, or will.
  absl::Status failure_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_GRADIENT_SCATTERER_H_
