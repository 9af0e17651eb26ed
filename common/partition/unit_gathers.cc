#include "common/partition/unit_gathers.h"

#include <algorithm>
#include <iterator>

namespace muster {

bool UnitGathers::IsInPlace(int unit) const {
  const int place = places_.shared_place(unit);
  if (place >= 0) return tenants_[place] == unit;
  return static_cast<size_t>(unit) < in_own_place_.size() && in_own_place_[unit];
}

bool UnitGathers::Take(int unit) {
  if (IsInPlace(unit)) return false;
  const int place = places_.shared_place(unit);
  if (place >= 0) {
    tenants_[place] = unit;
    return true;
  }
  in_own_place_.resize(std::max<size_t>(in_own_place_.size(), unit + 1));
  in_own_place_[unit] = true;
  return true;
}

std::vector<int> UnitGathers::Acquire(int unit, int next) {
  std::vector<int> gathered;
  const auto take = [&](int taken) {
    if (Take(taken)) gathered.push_back(taken);
  };
  take(unit);
  for (int owner : places_.tied_units(unit)) take(owner);
  if (next >= 0) take(next);
  return gathered;
}

void UnitGathers::Outdate() {
  std::fill(std::begin(tenants_), std::end(tenants_), -1);
  in_own_place_.clear();
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
