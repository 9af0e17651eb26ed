#include "common/step/stage_shape.h"

#include <numeric>

namespace muster {

int ModelStage::FirstUnit(int group) const {
  return std::accumulate(sizes.begin(), sizes.begin() + group, 0);
}

UnitRange ModelStage::UnitsOf(int first_chunk, int last_chunk) const {
  UnitRange units = {.first = FirstUnit(shape.Group(stage, first_chunk))};
  const int next = shape.Group(stage, last_chunk) + 1;
  if (next < shape.groups()) units.end = FirstUnit(next);
  return units;
}

}  // namespace muster
