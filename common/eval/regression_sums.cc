#include "common/eval/regression_sums.h"

#include <cmath>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr size_t kSums = 4;

}  // namespace

RegressionSums& RegressionSums::operator+=(const RegressionSums& other) {
  squared_errors += other.squared_errors;
  absolute_errors += other.absolute_errors;
  deviations += other.deviations;
  squared_deviations += other.squared_deviations;
  return *this;
}

std::string PackSums(const RegressionSums& sums) {
  // Every machine that this builds for is little-endian.
  const double values[kSums] = {sums.squared_errors, sums.absolute_errors, sums.deviations,
                                sums.squared_deviations};
  return std::string(reinterpret_cast<const char*>(values), sizeof(values));
}

absl::StatusOr<RegressionSums> UnpackSums(absl::string_view bytes) {
  double values[kSums] = {};
  if (bytes.empty()) return RegressionSums();
  if (bytes.size() != sizeof(values)) {
    return absl::InvalidArgumentError(absl::StrCat("the sums of errors have ", bytes.size(),
                                                   " bytes; four f64 have ", sizeof(values)));
  }
  std::memcpy(values, bytes.data(), sizeof(values));
  for (size_t i = 0; i < kSums; ++i) {
    // All but the sum of deviations are of numbers from 0.
    if (std::isfinite(values[i]) && (values[i] >= 0 || i == 2)) continue;
    return absl::InvalidArgumentError(absl::StrCat("number ", i + 1, " of the sums of errors is ",
                                                   values[i], ", which is impossible"));
  }
  return RegressionSums{values[0], values[1], values[2], values[3]};
}

}  // namespace muster
