#ifndef MUSTER_COMMON_PLAN_SHARDED_MEMORY_H_
#define MUSTER_COMMON_PLAN_SHARDED_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"

namespace muster {

// How the ranks of a job share out its dense parameters.
struct Sharding {
  // ZeRO stage, 1 to 3.
  uint32_t stage = 1;
  // Ranks of a shard group, and shard groups.
  uint32_t shards = 1;
  uint32_t replicas = 1;
  // True if gradients travel in 16 bits, so that each sum is rounded into other memory.
  bool half_wire = false;
};

// Bytes of one rank's memory, padding included.
struct ShardedMemory {
  // Weights that the optimizer steps, where no gathered weight is the same number: in f32.
  uint64_t weight_slices = 0;
  // In the type that the model computes with: all weights, or the places of units in flight.
  uint64_t gathered_weights = 0;
  // In f32: all gradients, or the places of units in flight.
  uint64_t gradients = 0;
  // Sums of gradients that are kept apart from the gradients, in f32.
  uint64_t gradient_sums = 0;
  // Copies of gradients and of sums in the type in which they travel.
  uint64_t wire = 0;
  // Parameters that the rank steps.
  uint64_t stepped_elements = 0;
  // What each other rank of the shard group, and each other replica, shares with this rank, if both
  // are on one machine.
  uint64_t shared_in_group = 0;
  uint64_t shared_with_replica = 0;
};

// Returns what a rank has of these parameters, by the functions by which ranks lay it out
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

#endif  // MUSTER_COMMON_PLAN_SHARDED_MEMORY_H_
