#include "worker/runtime/training/noise_scale.h"

#include <cmath>

namespace muster {
namespace {

// A measured step's share of the smoothed figures: about the last ten measured steps count.
constexpr double kShareOfStep = 0.1;

}  // namespace

void NoiseScale::Add(const MeanGradient& part, const MeanGradient& whole) {
  if (part.examples == 0 || part.examples >= whole.examples) return;
  if (!std::isfinite(part.squared_norm) || !std::isfinite(whole.squared_norm)) return;
  const auto n = static_cast<double>(part.examples);
  const auto N = static_cast<double>(whole.examples);
  const double gradient = (N * whole.squared_norm - n * part.squared_norm) / (N - n);
  const double noise = (part.squared_norm - whole.squared_norm) / (1 / n - 1 / N);
  gradient_ += kShareOfStep * (gradient - gradient_);
  noise_ += kShareOfStep * (noise - noise_);
}

absl::optional<double> NoiseScale::examples() const {
  if (!(gradient_ > 0)) return absl::nullopt;
  return noise_ > 0 ? noise_ / gradient_ : 0;
}

}  // namespace muster
