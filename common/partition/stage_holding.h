#ifndef MUSTER_COMMON_PARTITION_STAGE_HOLDING_H_
#define MUSTER_COMMON_PARTITION_STAGE_HOLDING_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "common/partition/unit_places.h"

namespace muster {

// The way in which ranks of a shard group hold gathered weights, and gradients before they are
// scattered. If absent, each rank holds its own, undivided. Gradients in flight are scattered in
// every micro-batch, whole gradients once a step.
struct StageHolding {
  absl::optional<UnitPlaces::Holding> weights;
  absl::optional<UnitPlaces::Holding> gradients;
};

// Returns how ranks hold weights and gradients under a ZeRO stage. REQUIRES: stage <= 3.
StageHolding HoldingOfStage(uint32_t stage);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_STAGE_HOLDING_H_
