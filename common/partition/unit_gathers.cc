#include "common/partition/unit_gathers.h"

#include <algorithm>

namespace muster {

bool UnitGathers::IsInPlace(int unit) const {
  const int place = places_.shared_place(unit);
  if (place >= 0) return tenants_[place] == unit;
  return static_cast<size_t>(unit) < in_own_place_.size() && in_own_place_[unit];
}

void UnitGathers::Gather(int unit, std::vector<int>& gathered) {
  if (IsInPlace(unit)) return;
  gathered.push_back(unit);
  const int place = places_.shared_place(unit);
  if (place >= 0) {
    tenants_[place] = unit;
    return;
  }
  in_own_place_.resize(std::max<size_t>(in_own_place_.size(), unit + 1));
  in_own_place_[unit] = true;
}

std::vector<int> UnitGathers::Acquire(int unit, int next) {
  std::vector<int> gathered;
  Gather(unit, gathered);
  for (int owner : places_.tied_units(unit)) Gather(owner, gathered);
  if (next >= 0) Gather(next, gathered);
  return gathered;
}

std::vector<int> GathersOfStep(int units, const UnitPlaces& places, int micro_batches) {
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
