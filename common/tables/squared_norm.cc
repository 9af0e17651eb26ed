#include "common/tables/squared_norm.h"

#include <algorithm>
#include <cstddef>

#include "common/kernels/elementwise.h"

namespace muster {
namespace {

constexpr size_t kLanes = kSquaredSumLanes;

}  // namespace

double SquaredNorm(absl::Span<const float* const> rows, uint32_t dim) {
  double sums[kLanes] = {};
  // Of the next element in the concatenation.
  size_t lane = 0;
  for (const float* row : rows) {
    uint32_t i = 0;
    if (lane == 0) {
      for (; i + kLanes <= dim; i += kLanes) {
        for (size_t k = 0; k < kLanes; ++k) {
          const double value = row[i + k];
          sums[k] += value * value;
        }
      }
    }
    for (; i < dim; ++i) {
      const double value = row[i];
      sums[lane] += value * value;
      lane = (lane + 1) % kLanes;
    }
  }
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

double SquaredNorm(absl::Span<const float> values) {
  return SquaredSum(static_cast<int64_t>(values.size()), values.data());
}

void SquaredNorms(absl::Span<const float> values, const Cells& cells,
                  absl::FunctionRef<void(double squared_norm)> visitor) {
  for (size_t cell = cells.first; !values.empty(); cell = cells.step) {
    cell = std::min(cell, values.size());
    visitor(SquaredNorm(values.first(cell)));
    values.remove_prefix(cell);
  }
}

double SquaredNorm(absl::Span<const float> values, const Cells& cells) {
  double sum = 0;
  SquaredNorms(values, cells, [&sum](double squared_norm) { sum += squared_norm; });
  return sum;
}

}  // namespace muster
