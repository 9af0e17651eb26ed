#include "worker/runtime/training/expert_loads.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace muster {

absl::optional<LoadRange> LoadRangeOf(absl::Span<const uint64_t> loads, int64_t experts) {
  absl::optional<LoadRange> range;
  const auto each = static_cast<size_t>(experts);
  for (size_t first = 0; first + each <= loads.size() && each > 0; first += each) {
    const absl::Span<const uint64_t> block = loads.subspan(first, each);
    const double tokens = std::accumulate(block.begin(), block.end(), 0.0);
    if (tokens == 0) continue;
    const auto [least, most] = std::minmax_element(block.begin(), block.end());
    const double mean = tokens / static_cast<double>(each);
    const LoadRange of_block = {static_cast<double>(*least) / mean,
                                static_cast<double>(*most) / mean};
    if (!range.has_value()) range = of_block;
    range->lowest = std::min(range->lowest, of_block.lowest);
    range->highest = std::max(range->highest, of_block.highest);
  }
  return range;
}

}  // namespace muster
