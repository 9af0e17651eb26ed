#include "common/tables/squared_norm.h"

#include <cstddef>

namespace muster {

double SquaredNorm(absl::Span<const float> values) {
  constexpr size_t kLanes = 8;
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (size_t lane = 0; i < values.size(); ++i, ++lane) {
    const double value = values[i];
    sums[lane] += value * value;
  }
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace muster
