#ifndef MUSTER_WORKER_NN_GRADIENT_CHECK_H_
#define MUSTER_WORKER_NN_GRADIENT_CHECK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "worker/nn/layer.h"

namespace muster {

// For tests: analytic gradients against central differences.

// `size` values in ±[0.1, 1), a function of the seed: none near 0, where a ReLU has no slope.
std::vector<float> RandomValues(size_t size, uint64_t seed);

struct GradientCheckOptions {
  // For messages.
  std::string what;
  // Half the width of a difference. f32 forward passes want a wide one against rounding.
  double step = 1.0 / 128;
  // Largest |analytic - numeric| / (1 + |numeric|).
  double tolerance = 1e-3;
  // Elements checked, spread over all; 0 is all.
  size_t samples = 0;
  // Of those, the share (rounded up) that may lie at a kink: where the slopes to the left and right
  // differ so much that the central difference says nothing. They are passed over.
  double kinks = 0;
};

// Expects gradient[i] to be the slope of `value` along x[i]; `value` reads `x`, which is as before
// afterwards.
void ExpectGradient(const GradientCheckOptions& options, const std::function<double()>& value,
                    absl::Span<float> x, absl::Span<const float> gradient);

// Checks all of a layer's contract on random values: both backward calls against differences,
// kWrite and kAdd, that weights' gradients are added or written, that a batch of no examples is
// fine.
void CheckLayer(const Layer& layer, int64_t examples, uint64_t seed);

}  // namespace muster

#endif  // MUSTER_WORKER_NN_GRADIENT_CHECK_H_
