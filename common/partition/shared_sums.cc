#include "common/partition/shared_sums.h"

#include <algorithm>

#include "common/partition/local_tensors.h"

namespace muster {

std::vector<std::vector<SharedSum>> SharedSums(absl::Span<const TensorSpec> tensors,
                                               bool divides_tokens) {
  std::vector<std::vector<SharedSum>> sums;
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (const SharedElements& shared : PartialElements(tensors[t], divides_tokens)) {
      sums.resize(std::max<size_t>(sums.size(), tensors[t].unit + 1));
      std::vector<SharedSum>& of_unit = sums[tensors[t].unit];
      const auto at =
          std::lower_bound(of_unit.begin(), of_unit.end(), shared.ranks,
                           [](const SharedSum& sum, int ranks) { return sum.ranks < ranks; });
      SharedSum& sum = at != of_unit.end() && at->ranks == shared.ranks
                           ? *at
                           : *of_unit.insert(at, {.ranks = shared.ranks});
      sum.elements.push_back({t, shared.begin, shared.end});
      sum.count += shared.end - shared.begin;
    }
  }
  return sums;
}

}  // namespace muster
