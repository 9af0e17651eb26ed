#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_DOCUMENTS_FOR_TESTING_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_DOCUMENTS_FOR_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

namespace muster {

// AttentionShape::token_positions of B sequences of T tokens whose documents have lengths by
// chance, among them those around the extents of tiles.
inline std::vector<int32_t> DocumentPositions(int64_t B, int64_t T, uint32_t seed) {
  constexpr int64_t kLengths[] = {1, 2, 5, 6, 7, 16, 31, 48, 63, 64, 65, 90, 128, 200, 330};
  std::mt19937 random(seed);
  std::vector<int32_t> positions;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T;) {
      const int64_t end = std::min(T, t + kLengths[random() % std::size(kLengths)]);
      for (int32_t position = 0; t < end; ++t, ++position) positions.push_back(position);
    }
  }
  return positions;
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_DOCUMENTS_FOR_TESTING_H_
