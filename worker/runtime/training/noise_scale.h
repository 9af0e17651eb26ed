#ifndef MUSTER_WORKER_RUNTIME_TRAINING_NOISE_SCALE_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_NOISE_SCALE_H_

#include <cstdint>

#include "absl/types/optional.h"

namespace muster {

// A mean gradient over some examples of a step.
struct MeanGradient {
  double squared_norm = 0;
  uint64_t examples = 0;
};

// Estimates the gradient noise scale: the number of examples at which the noise of their mean
// gradient is as large as the gradient itself (McCandlish and others, 2018, appendix A.1). With G
// the true gradient, S the sum of the variances of an example's gradient, and g(n) the mean over n
// examples, E|g(n)|² = |G|² + S / n. A part of n examples and the whole step of N therefore give
//
//   |G|² ≈ (N |g(N)|² - n |g(n)|²) / (N - n)
//   S    ≈ (|g(n)|² - |g(N)|²) / (1/n - 1/N)
//
// without bias. The noise scale is S / |G|²; since the quotient of two noisy figures is biased,
// each is smoothed over steps by itself first. As the part counts the step's first micro-batch on
// one rank, which is enough for an estimate without bias and needs no call between ranks.
class NoiseScale {
 public:
  // Steps at multiples of so many clocks are measured: a squared norm reads all gradients once
  // more.
  static constexpr uint64_t kEverySteps = 10;

  // Adds a measured step. Does nothing where the part is the whole, or a norm is not finite.
  void Add(const MeanGradient& part, const MeanGradient& whole);

  // Returns the noise scale in examples; absent before the first step, and while noise hides the
  // gradient (an estimate of |G|² that is not above 0).
  absl::optional<double> examples() const;

 private:
  // Smoothed over steps with equal weights, in which their quotient needs no correction.
  double gradient_ = 0;
  double noise_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_NOISE_SCALE_H_
