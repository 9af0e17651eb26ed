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

}  // namespace muster
