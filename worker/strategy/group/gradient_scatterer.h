#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENT_SCATTERER_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENT_SCATTERER_H_

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
#include "worker/strategy/group/gradient_reducer.h"
#include "worker/strategy/group/unit_memory.h"
#include "worker/strategy/series_position.h"

namespace muster {

struct GradientScattererOptions {
  // kWhole: the gradients of a step's micro-batches add up where they are written, and are
  // scattered in the last one. kInFlight: at most two units, besides those that others are tied to,
  // have memory at a time; each is scattered in every micro-batch, and this rank's slices add up.
  UnitPlaces::Holding holding = UnitPlaces::Holding::kWhole;
  // What gradients travel as; see GradientReducerOptions.
  DType wire = DType::kF32;
  // Sums in rank order, as an all-reduce of the same gradients that is deterministic, too: the same
  // bits.
  bool deterministic = false;
  // Of each part's call, from when it is its turn.
  absl::Duration timeout = absl::Minutes(10);
  // Waits for a call.
  WaitForWork wait = WaitForever;
  // The ranks that have the same slices in other shard groups. Outlives the scatterer; null, or a
  // group of one: there are none.
  Communicator* replicas = nullptr;
};

// Sums a step's gradients over the ranks of a shard group while backward goes on, and leaves each
// rank the sums of its slices; with replicas, the sums over all of them. A part is reduced and
// scattered as soon as the last unit that writes into it is ready: of a tensor that others are tied
// to, the one that backward comes to last.
//
//   for each micro-batch: BeginMicroBatch;
//     for each unit from last to first: BeforeWrite; write gradients(); UnitReady
//   Finish; read sums()
//
// In a group of one nothing is sent. Bytes that a rank sends: (S-1)/S of the part with its padding
// a call, by kDirect and kRing alike; reduce-scatters have no other algorithm. Used by one thread.
class GradientScatterer {
 public:
  // A collective call of the shard group, then of the replicas. The communicators must outlive the
  // scatterer, and meanwhile be used by others only between Finish and UnitReady, or in the same
  // order on all ranks. FailedPrecondition if the group's size is not the number of shards;
  // otherwise errors are the communicator's.
  static absl::StatusOr<std::unique_ptr<GradientScatterer>> Create(
      Communicator& shard_group, const ShardedTensors& sharded,
      const GradientScattererOptions& options);

  // Calls that are under way end in Abort, for the whole group: nobody waits for what does not
  // come.
  ~GradientScatterer();

  GradientScatterer(const GradientScatterer&) = delete;
  GradientScatterer& operator=(const GradientScatterer&) = delete;

  // Returns the gradients, by tensor index, tied ones included. Addresses never change. Writable
  // are a unit's between BeforeWrite and UnitReady.
  GradientSpans gradients() const { return gradients_; }

  // Begins a micro-batch, the first since Create or Finish being the first of a step. sums() hold
  // nothing in particular from now on.
  void BeginMicroBatch(SeriesPosition position);

  // Returns how backward leaves a unit's gradients in this micro-batch. kWrite, too, where tied
  // tensors have a sum already: the unit that comes first in backward writes those, and the others
  // add (Strategy::GradientStore).
  Accumulation GradientStore() const;

  // Blocks until the memory of the unit's gradients, those of tied tensors included, is free: until
  // what was written there before has been scattered and added up. FailedPrecondition: another unit
  // that has been written there is not ready. Otherwise errors are the communicator's.
  absl::Status BeforeWrite(int unit);

  // Backward has left the unit: starts to scatter what is complete, unless it is still to be added
  // to in this step. To be called for every unit that has tensors, tied ones included, from the
  // last to the first.
  void UnitReady(int unit);

  // Waits for everything that was started: sums() then hold this rank's share. The first error is
  // returned once nothing is under way. REQUIRES: every unit was ready in the last micro-batch.
  absl::Status Finish();

  // Returns the sums, by part: this rank's slice, whose padding is zero. Addresses never change.
  // With kWhole they lie in the gradients' memory.
  absl::Span<const absl::Span<float>> sums() const { return sums_; }

 private:
  struct Part {
    int index = 0;
    int unit = 0;
    std::string label;
    // Of the scatter that is under way: whether it adds to the sums of earlier micro-batches, the
    // micro-batch, and the call, null in a group of one.
    bool adds = false;
    SeriesPosition position = SeriesPosition::kLast;
    std::shared_ptr<Work> work;
  };
  struct Sent;

  GradientScatterer(Communicator& shard_group, const ShardedTensors& sharded,
                    const GradientScattererOptions& options, std::unique_ptr<UnitMemory> memory);

  // Allocates everything except the gradients.
  absl::Status Allocate();
  // Returns the number that stands for the unit in the replicas' buckets, which are in the order of
  // parts_.
  int BucketUnit(size_t position) const { return static_cast<int>(parts_.size() - 1 - position); }

  // Blocks until nothing that lies in the unit's place is under way.
  absl::Status FreeMemory(int unit);
  Sent SentOf(const Part& part) const;
  void Scatter(size_t position);
  // Waits for the first of under_way_ and adds what it has brought to the sums. Errors go to
  // failure_.
  void CollectNext();

  Communicator& shard_group_;
  const ShardedTensors sharded_;
  const GradientScattererOptions options_;
  const std::unique_ptr<UnitMemory> memory_;
  // Only with kBf16: what travels, at half the offsets.
  std::unique_ptr<CollectiveBuffer> wire_memory_;
  // Null without replicas.
  std::unique_ptr<GradientReducer> reducer_;
  // The slice space. Only with kInFlight and without replicas, whose reducer has it otherwise.
  std::unique_ptr<Arena> own_sums_;

  // By tensor.
  std::vector<absl::Span<float>> gradients_;
  // By part.
  std::vector<absl::Span<float>> sums_;
  // In the order in which they are scattered in each micro-batch that scatters.
  std::vector<Part> parts_;
  struct Interval {
    size_t begin = 0;
    size_t end = 0;
  };
  // By unit: which of parts_ are complete with it.
  std::vector<Interval> ready_;

  // The unit that is written in each shared place, from BeforeWrite to UnitReady; -1: none.
  int writers_[2] = {-1, -1};

  // Since the last Finish.
  int micro_batches_ = 0;
  SeriesPosition position_ = SeriesPosition::kLast;
  // Positions in parts_, in the order in which they were started.
  std::deque<size_t> under_way_;
  // The first error, after which the group has ended.
  absl::Status failure_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENT_SCATTERER_H_
