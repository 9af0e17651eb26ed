#ifndef MUSTER_COMMON_STEP_UNIT_RANGE_H_
#define MUSTER_COMMON_STEP_UNIT_RANGE_H_

#include <limits>

namespace muster {

// Units of a model that follow one another, from `first` to before `end`.
struct UnitRange {
  int first = 0;
  int end = std::numeric_limits<int>::max();

  friend bool operator==(const UnitRange& a, const UnitRange& b) = default;
};

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_UNIT_RANGE_H_
