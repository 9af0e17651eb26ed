#include "worker/nn/gradient_check.h"

#include <algorithm>
#include <cmath>

#include "common/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Each;

double WeightedSum(const std::vector<float>& weights, const std::vector<float>& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += static_cast<double>(weights[i]) * values[i];
  return sum;
}

// What is left of `sums` once `before` is taken out.
std::vector<float> Difference(const std::vector<float>& sums, const std::vector<float>& before) {
  std::vector<float> difference(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) difference[i] = sums[i] - before[i];
  return difference;
}

void CheckWeights(const Layer& layer, const BackwardInputs& inputs,
                  std::vector<std::vector<float>>& parameters,
                  const std::function<double()>& value) {
  // The gradients start from something, to which the call must add.
  std::vector<std::vector<float>> before;
  std::vector<std::vector<float>> gradients;
  std::vector<absl::Span<float>> spans;
  for (size_t t = 0; t < parameters.size(); ++t) {
    before.push_back(RandomValues(parameters[t].size(), 100 + t));
  }
  gradients = before;
  for (std::vector<float>& gradient : gradients) spans.push_back(absl::MakeSpan(gradient));
  layer.BackwardWeights({}, inputs, spans);
  for (size_t t = 0; t < parameters.size(); ++t) {
    ExpectGradient({.what = "tensor " + std::to_string(t)}, value, absl::MakeSpan(parameters[t]),
                   Difference(gradients[t], before[t]));
  }
  // Or from nothing in particular, which it replaces; also without examples.
  for (const absl::Span<float> gradient : spans) std::fill(gradient.begin(), gradient.end(), NAN);
  layer.BackwardWeights({.gradients = Accumulation::kWrite}, inputs, spans);
  for (size_t t = 0; t < parameters.size(); ++t) {
    ExpectGradient({.what = "tensor " + std::to_string(t) + ", written"}, value,
                   absl::MakeSpan(parameters[t]), gradients[t]);
  }
  layer.BackwardWeights({.gradients = Accumulation::kWrite}, {}, spans);
  for (const std::vector<float>& gradient : gradients) EXPECT_THAT(gradient, Each(0.0f));
}

}  // namespace

std::vector<float> RandomValues(size_t size, uint64_t seed) {
  const Philox random(seed, "test", "values");
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    const float magnitude = 0.1f + 0.9f * random.Uniform(i);
    values[i] = random.Uniform(i, 1) < 0.5f ? -magnitude : magnitude;
  }
  return values;
}

void ExpectGradient(const GradientCheckOptions& options, const std::function<double()>& value,
                    absl::Span<float> x, absl::Span<const float> gradient) {
  ASSERT_EQ(x.size(), gradient.size()) << options.what;
  const size_t samples = options.samples == 0 ? x.size() : std::min(options.samples, x.size());
  const double middle = value();
  size_t passed_over = 0;
  for (size_t s = 0; s < samples; ++s) {
    const size_t i = s * x.size() / samples;
    const float saved = x[i];
    // The steps that f32 really makes.
    x[i] = saved + options.step;
    const double up = x[i] - saved;
    const double above = value();
    x[i] = saved - options.step;
    const double down = saved - x[i];
    const double below = value();
    x[i] = saved;
    const double numeric = (above - below) / (up + down);
    const double limit = options.tolerance * (1 + std::abs(numeric));
    if (std::abs(gradient[i] - numeric) <= limit) continue;
    const double bend = std::abs((above - middle) / up - (middle - below) / down);
    if (options.kinks > 0 && bend / 2 > limit) {
      ++passed_over;
      continue;
    }
    ADD_FAILURE() << options.what << ", element " << i << " of " << x.size() << ": gradient "
                  << gradient[i] << ", difference quotient " << numeric;
  }
  EXPECT_LE(passed_over, std::ceil(options.kinks * samples)) << options.what << ": too many kinks";
}

void CheckLayer(const Layer& layer, int64_t examples, uint64_t seed) {
  std::vector<TensorSpec> tensors;
  layer.AppendTensors("layer", 3, tensors);
  std::vector<std::vector<float>> parameters;
  for (const TensorSpec& tensor : tensors) {
    EXPECT_EQ(tensor.unit, 3);
    EXPECT_EQ(tensor.name.rfind("layer", 0), 0) << tensor.name;
    parameters.push_back(RandomValues(tensor.elements(), seed + parameters.size() + 1));
  }
  std::vector<absl::Span<const float>> spans(parameters.begin(), parameters.end());

  std::vector<float> in = RandomValues(examples * layer.in_features(), seed);
  // Outputs are written, whatever they held.
  std::vector<float> out(examples * layer.out_features(), NAN);
  const std::vector<float> out_gradient = RandomValues(out.size(), seed + 50);
  const auto value = [&] {
    layer.Forward({}, spans, in, absl::MakeSpan(out));
    return WeightedSum(out_gradient, out);
  };
  value();
  const std::vector<float> saved_out = out;
  const BackwardInputs inputs = {.in = in, .out = saved_out, .out_gradient = out_gradient};

  std::vector<float> in_gradient(in.size(), NAN);
  layer.BackwardInput({}, spans, inputs, Accumulation::kWrite, absl::MakeSpan(in_gradient));
  ExpectGradient({.what = "input"}, value, absl::MakeSpan(in), in_gradient);

  const std::vector<float> before = RandomValues(in.size(), seed + 51);
  std::vector<float> added = before;
  layer.BackwardInput({}, spans, inputs, Accumulation::kAdd, absl::MakeSpan(added));
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_NEAR(added[i], before[i] + in_gradient[i], 1e-5) << "kAdd, element " << i;
  }

  CheckWeights(layer, inputs, parameters, value);

  layer.Forward({}, spans, {}, {});
  layer.BackwardInput({}, spans, {}, Accumulation::kWrite, {});
}

}  // namespace muster
