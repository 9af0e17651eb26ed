#include "common/partition/rectangle.h"

#include <algorithm>
#include <cstddef>

namespace muster {

void ForEachContiguous(
    absl::Span<const int64_t> shape, absl::Span<const int64_t> start,
    absl::Span<const int64_t> extent, uint64_t begin, uint64_t end,
    absl::FunctionRef<void(uint64_t first, uint64_t global, uint64_t count)> visitor) {
  if (begin >= end) return;
  if (extent.empty()) {
    visitor(begin, begin, end - begin);
    return;
  }
  // Dimensions behind `cut` are whole, so consecutive elements span them and the rectangle's extent
  // in `cut`.
  size_t cut = shape.size() - 1;
  uint64_t consecutive = extent[cut];
  while (cut > 0 && extent[cut] == shape[cut]) consecutive *= extent[--cut];
  while (begin < end) {
    uint64_t global = 0;
    uint64_t stride = 1;
    uint64_t rest = begin;
    for (size_t d = shape.size(); d-- > 0;) {
      global += (start[d] + rest % extent[d]) * stride;
      rest /= extent[d];
      stride *= shape[d];
    }
    const uint64_t count = std::min(end - begin, consecutive - begin % consecutive);
    visitor(begin, global, count);
    begin += count;
  }
}

bool IsRectangleOf(absl::Span<const int64_t> shape, absl::Span<const int64_t> start,
                   absl::Span<const int64_t> extent, uint64_t elements) {
  const bool whole = start.empty() && extent.empty();
  if (!whole && (start.size() != shape.size() || extent.size() != shape.size())) return false;
  // The tensor itself is known to be sound, so a product of parts of its dimensions cannot
  // overflow.
  uint64_t product = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (whole) {
      product *= shape[d];
      continue;
    }
    if (start[d] < 0 || extent[d] < 0 || extent[d] > shape[d] || start[d] > shape[d] - extent[d]) {
      return false;
    }
    product *= extent[d];
  }
  return elements <= product;
}

}  // namespace muster
