#include "common/step/stage_shape.h"

#include <numeric>

namespace muster {

int ModelStage::FirstUnit(int virtual_stage) const {
  return std::accumulate(sizes.begin(), sizes.begin() + virtual_stage, 0);
}

UnitRange ModelStage::UnitsOf(int first_chunk, int last_chunk) const {
  UnitRange units = {.first = FirstUnit(shape.VirtualStage(stage, first_chunk))};
  const int next = shape.VirtualStage(stage, last_chunk) + 1;
  if (next < shape.virtual_stages()) units.end = FirstUnit(next);
  return units;
}

}  // namespace muster
