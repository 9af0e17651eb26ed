#ifndef MUSTER_COMMON_KERNELS_ARRAYS_FOR_TESTING_H_
#define MUSTER_COMMON_KERNELS_ARRAYS_FOR_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace muster {

// For tests of kernels.

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Returns `n` numbers in [-1, 1).
inline std::vector<float> RandomArray(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> unit(-1, 1);
  std::vector<float> values(n);
  for (float& value : values) value = unit(random);
  return values;
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_ARRAYS_FOR_TESTING_H_
