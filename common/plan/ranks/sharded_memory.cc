#include "common/plan/ranks/sharded_memory.h"

#include "common/base/status_macros.h"
#include "common/partition/dense_layout.h"
#include "common/partition/shard_layout.h"
#include "common/partition/stage_holding.h"
#include "common/partition/unit_places.h"
#include "common/plan/ranks/rank_size.h"
#include "common/tensor/dtype.h"

namespace muster {
namespace {

constexpr uint64_t kHalf = sizeof(uint16_t);
}  // namespace

absl::StatusOr<ShardedMemory> PlanShardedMemory(absl::Span<const TensorSpec> tensors,
                                                const Sharding& sharding) {
  const StageHolding holding = HoldingOfStage(sharding.stage);
  const bool sums_apart = holding.gradients == UnitPlaces::Holding::kInFlight;
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, LayoutOfLargeBlocks(tensors));
  const ShardLayout shards(
      layout, Holders(static_cast<int>(sharding.shards), static_cast<int>(sharding.expert_ranks)));
  const UnitPlaces weights(shards, tensors, *holding.weights, UnitPlaces::Content::kWeights,
                           sharding.kept_bytes);
  const ShardLayout trained(layout.Trained(), shards.holders());
  const UnitPlaces gradients(trained, tensors, *holding.gradients, UnitPlaces::Content::kGradients);
  ShardedMemory memory;
  memory.held_elements = shards.slice_elements();
  memory.stepped_elements = trained.slice_elements();
  memory.gathered_weights = weights.bytes();
  memory.gradients = gradients.bytes();
  for (const ShardLayout::Part& part : shards.parts()) {
    // If ranks hold all gathered weights, f32 weights are stepped in place.
    const bool stepped_in_place =
        holding.weights == UnitPlaces::Holding::kWhole && part.compute == DType::kF32;
    if (!stepped_in_place) memory.weight_slices += sizeof(float) * part.slice;
  }
  // If ranks hold whole gradients, sums lie among them.
  if (sums_apart) memory.gradient_sums = sizeof(float) * trained.slice_elements();
  const uint64_t group_wire = sharding.half_wire ? memory.gradients / 2 : 0;
  memory.shared_in_group = memory.gathered_weights + memory.gradients + group_wire;
  memory.wire = group_wire;
  if (sharding.replicas > 1) {
    const uint64_t replica_wire = sharding.half_wire ? kHalf * trained.slice_elements() : 0;
    memory.shared_with_replica = memory.gradient_sums + replica_wire;
    memory.wire += replica_wire;
  }
  return memory;
}

absl::StatusOr<InFlightMemory> PlanUnitsInFlight(absl::Span<const TensorSpec> tensors,
                                                 absl::Span<const DType> held_as) {
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, LayoutOfLargeBlocks(tensors));
  const ShardLayout one(layout, 1);
  const ShardLayout trained(layout.Trained(), 1);
  constexpr auto kInFlight = UnitPlaces::Holding::kInFlight;
  return InFlightMemory{
      .weights = UnitPlaces(one, tensors, kInFlight, RoomFor(layout, held_as)).bytes(),
      .gradients =
          UnitPlaces(trained, tensors, kInFlight, UnitPlaces::Content::kGradients).bytes()};
}

}  // namespace muster
