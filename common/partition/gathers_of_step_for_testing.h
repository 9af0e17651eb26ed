#ifndef MUSTER_COMMON_PARTITION_GATHERS_OF_STEP_FOR_TESTING_H_
#define MUSTER_COMMON_PARTITION_GATHERS_OF_STEP_FOR_TESTING_H_

#include <vector>

#include "common/partition/unit_gathers.h"
#include "common/partition/unit_places.h"

namespace muster {

// Returns how often each of `units` units is gathered in one training step. Each micro-batch goes
// forward from the first unit to the last and backward to the first; the last unit is acquired once
// for both. Units without parameters count, too. REQUIRES: units >= 1, micro_batches >= 1.
inline std::vector<int> GathersOfStep(int units, const UnitPlaces& places, int micro_batches) {
  std::vector<int> counts(units);
  UnitGathers gathers(places);
  const auto acquire = [&](int unit, int next) {
    for (int gathered : gathers.Acquire(unit, next)) ++counts[gathered];
  };
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    for (int unit = 0; unit + 1 < units; ++unit) acquire(unit, unit + 1);
    for (int unit = units - 1; unit >= 0; --unit) acquire(unit, unit - 1);
  }
  return counts;
}

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_GATHERS_OF_STEP_FOR_TESTING_H_
