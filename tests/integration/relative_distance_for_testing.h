#ifndef MUSTER_TESTS_INTEGRATION_RELATIVE_DISTANCE_FOR_TESTING_H_
#define MUSTER_TESTS_INTEGRATION_RELATIVE_DISTANCE_FOR_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "gtest/gtest.h"
#include "tests/harness/safetensors_reader.h"

namespace muster {

// Returns the largest of ‖a − b‖₂ / ‖b‖₂ over the F32 tensors of two exports; 1 if these are not of
// the same names and sizes.
inline double RelativeDistance(const ExportedTensors& a, const ExportedTensors& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = a.empty() ? 1 : 0;
  for (const auto& [name, tensor] : b) {
    if (tensor.dtype != "F32") continue;
    const auto found = a.find(name);
    if (found == a.end()) return 1;
    const std::vector<float> x = found->second.Floats(), y = tensor.Floats();
    if (x.size() != y.size()) return 1;
    double difference = 0, norm = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      difference += std::pow(double{x[i]} - y[i], 2);
      norm += std::pow(double{y[i]}, 2);
    }
    if (norm > 0) worst = std::max(worst, std::sqrt(difference / norm));
  }
  return worst;
}

}  // namespace muster

#endif  // MUSTER_TESTS_INTEGRATION_RELATIVE_DISTANCE_FOR_TESTING_H_
