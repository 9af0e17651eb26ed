#ifndef MUSTER_COMMON_PARTITION_UNIT_GATHERS_H_
#define MUSTER_COMMON_PARTITION_UNIT_GATHERS_H_

#include <vector>

#include "common/partition/unit_places.h"

namespace muster {

// The units whose weights are in their places (UnitPlaces) while passes of one clock acquire one
// unit after another. A unit that is still in its place is not gathered again. A unit that is
// gathered into a shared place overwrites the one that was there, which must be gathered again when
// it is next acquired. When a unit is acquired, the next one is gathered ahead of its time, so at
// most two units are in the shared places.
//
// For example, units 0 to 3 in shared places: forward gathers 0 with 1, then 2, then 3; backward
// finds 3 and 2, and gathers 1 and 0. Another micro-batch finds 0 and 1.
//
// Pure arithmetic. Not thread-safe.
class UnitGathers {
 public:
  // `places` outlives this. No unit is in its place at first.
  explicit UnitGathers(const UnitPlaces& places) : places_(places) {}

  // Returns the units to be gathered, in this order: the acquired unit and those that it is tied
  // to, as far as they are not in their places, and `next`, the unit that will be acquired after
  // it; -1 if there is none in this direction.
  std::vector<int> Acquire(int unit, int next);

 private:
  bool IsInPlace(int unit) const;
  void Gather(int unit, std::vector<int>& gathered);

  const UnitPlaces& places_;
  // The units that share the two places; -1: none.
  int tenants_[2] = {-1, -1};
  // By unit, as far as any was gathered: whether it is in a place of its own.
  std::vector<bool> in_own_place_;
};

// Returns how often each of `units` units is gathered in one training step, whose passes go forward
// from the first to the last unit and backward to the first, once for each micro-batch; the last
// unit is acquired once for both. A unit without parameters counts, too. REQUIRES: units >= 1,
// micro_batches >= 1.
std::vector<int> GathersOfStep(int units, const UnitPlaces& places, int micro_batches);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_UNIT_GATHERS_H_
