#ifndef MUSTER_COMMON_PLAN_RANKS_SHARDED_MEMORY_H_
#define MUSTER_COMMON_PLAN_RANKS_SHARDED_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"

namespace muster {

// The division of a job's dense parameters among its ranks.
struct Sharding {
  // ZeRO stage, 1 to 3.
  uint32_t stage = 1;
  // Ranks in a shard group, and the number of shard groups.
  uint32_t shards = 1;
  uint32_t replicas = 1;
  // Ranks that share out experts.
  uint32_t expert_ranks = 1;
  // Stage 3: memory for units that stay gathered, beside units in flight.
  uint64_t kept_bytes = 0;
  // True if gradients travel in 16 bits, so that each sum is rounded into other memory.
  bool half_wire = false;
};

// Bytes of one rank's memory, padding included.
struct ShardedMemory {
  // The rank's f32 weights that the optimizer steps, unless it steps gathered weights in place.
  uint64_t weight_slices = 0;
  // All weights, or the places of units in flight and of kept units, in the type with which the
  // model computes.
  uint64_t gathered_weights = 0;
  // All gradients, or the places of units in flight, in f32.
  uint64_t gradients = 0;
  // Sums of gradients that are kept apart from the gradients, in f32.
  uint64_t gradient_sums = 0;
  // Copies of gradients and sums in the type in which they travel.
  uint64_t wire = 0;
  // The numbers of parameters that the rank holds, and that it steps: those that are not frozen.
  uint64_t held_elements = 0;
  uint64_t stepped_elements = 0;
  // Bytes that each other rank of the shard group, and each other replica, shares with this rank if
  // both are on one machine.
  uint64_t shared_in_group = 0;
  uint64_t shared_with_replica = 0;
};

// Returns the memory of a rank for these parameters, computed from the layouts that ranks use
// (common/partition/shard_layout.h, unit_places.h). InvalidArgument: the tensors cannot be laid
// out. Costs O(tensors).
absl::StatusOr<ShardedMemory> PlanShardedMemory(absl::Span<const TensorSpec> tensors,
                                                const Sharding& sharding);

// Bytes of the places of units in flight, of a worker whose parameters are on servers (ZeRO stage
// 3).
struct InFlightMemory {
  uint64_t weights = 0;
  uint64_t gradients = 0;
};

// Returns the same for such a worker, which holds parameters in `held_as` (by tensor, PulledTypes).
absl::StatusOr<InFlightMemory> PlanUnitsInFlight(absl::Span<const TensorSpec> tensors,
                                                 absl::Span<const DType> held_as);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_RANKS_SHARDED_MEMORY_H_
