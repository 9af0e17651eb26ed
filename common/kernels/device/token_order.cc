#include <algorithm>
#include <numeric>

#include "common/kernels/device/device_embedding.h"

namespace muster {

void FillTokenOrder(absl::Span<const int32_t> tokens, absl::Span<int32_t> order) {
  const int64_t rows = static_cast<int64_t>(tokens.size());
  int32_t* const begins = order.data() + rows;
  int32_t* const occurring = begins + rows + 1;
  std::iota(order.begin(), order.begin() + rows, 0);
  std::stable_sort(order.begin(), order.begin() + rows,
                   [&](int32_t a, int32_t b) { return tokens[a] < tokens[b]; });
  int32_t count = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int32_t token = tokens[order[i]];
    if (i > 0 && token == occurring[count - 1]) continue;
    begins[count] = static_cast<int32_t>(i);
    occurring[count] = token;
    ++count;
  }
  std::fill(begins + count, begins + rows + 1, static_cast<int32_t>(rows));
  std::fill(occurring + count, occurring + rows, -1);
  occurring[rows] = count;
}

}  // namespace muster
