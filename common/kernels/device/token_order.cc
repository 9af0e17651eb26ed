// A counting sort: rows of each token are counted, then each row goes where its token's next one
// belongs. Sorting by comparison would take the host milliseconds for a micro-batch of 65,536
// tokens, for which a device waits at a step's start.
#include <algorithm>
#include <utility>

#include "common/kernels/device/device_embedding.h"

namespace muster {

void FillTokenOrder(absl::Span<const int32_t> tokens, absl::Span<int32_t> counts,
                    absl::Span<int32_t> order) {
  const int32_t rows = static_cast<int32_t>(tokens.size());
  int32_t* const begins = order.data() + rows;
  int32_t* const occurring = begins + rows + 1;
  std::fill(counts.begin(), counts.end(), 0);
  for (const int32_t token : tokens) ++counts[token];
  // From here on a count is where the token's next row goes.
  int32_t count = 0;
  int32_t begin = 0;
  for (size_t token = 0; token < counts.size(); ++token) {
    if (counts[token] == 0) continue;
    begins[count] = begin;
    occurring[count] = static_cast<int32_t>(token);
    ++count;
    begin += std::exchange(counts[token], begin);
  }
  for (int32_t row = 0; row < rows; ++row) order[counts[tokens[row]]++] = row;
  std::fill(begins + count, begins + rows + 1, rows);
  std::fill(occurring + count, occurring + rows, -1);
  occurring[rows] = count;
}

}  // namespace muster
