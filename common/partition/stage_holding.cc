#include "common/partition/stage_holding.h"

namespace muster {

StageHolding HoldingOfStage(uint32_t stage) {
  using Holding = UnitPlaces::Holding;
  static constexpr StageHolding kStages[] = {
      {absl::nullopt, absl::nullopt},
      {Holding::kWhole, Holding::kWhole},
      {Holding::kWhole, Holding::kInFlight},
      {Holding::kInFlight, Holding::kInFlight},
  };
  return kStages[stage];
}

}  // namespace muster
