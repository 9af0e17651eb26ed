#ifndef MUSTER_COMMON_PARTITION_UNIT_GATHERS_H_
#define MUSTER_COMMON_PARTITION_UNIT_GATHERS_H_

#include <vector>

#include "common/partition/unit_places.h"

namespace muster {

// Tracks which units' weights are in their places (UnitPlaces) while the passes of one clock
// acquire unit after unit. A unit that is still in its place is not gathered again. A unit gathered
// into a shared place overwrites the unit there, which must be gathered again before its next use.
// Acquiring a unit also gathers the next one, ahead of its use.
//
// For example, units 0 to 3 in shared places: forward gathers 0 with 1, then 2, then 3; backward
// finds 3 and 2, and gathers 1 and 0. Another micro-batch finds 0 and 1.
//
// Pure arithmetic. Not thread-safe.
class UnitGathers {
 public:
  // `places` must outlive this. No unit is in its place at first.
  explicit UnitGathers(const UnitPlaces& places) : places_(places) {}

  // Returns the units to gather, in order, leaving out those that are in their places: the acquired
  // unit, the units that it is tied to, and `next`, the unit acquired after it (-1: none).
  std::vector<int> Acquire(int unit, int next);
  // Puts the unit in its place. Returns whether it has to be gathered for that.
  bool Take(int unit);

  bool IsInPlace(int unit) const;
  // Forgets what is in its place.
  void Outdate();

 private:
  const UnitPlaces& places_;
  // The unit in each of the two shared places; -1: none.
  int tenants_[2] = {-1, -1};
  // True for units with a place of their own that were gathered. Grows with the units.
  std::vector<bool> in_own_place_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_UNIT_GATHERS_H_
