#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status_macros.h"
#include "common/optim/apply.h"
#include "common/optim/optimizer_options.h"
#include "common/optim/optimizers.h"

namespace muster {
namespace {

struct AdagradCoefficients {
  float scale;
  float limit;
  float rate;
  float decay;
  float epsilon;
};

MUSTER_SIMD_CLONES
void AdagradLoop(const AdagradCoefficients c, size_t n, const float* __restrict gradient,
                 float* __restrict weights, float* __restrict accumulator) {
  for (size_t i = 0; i < n; ++i) {
    const float w = weights[i];
    const float g = UsedGradient(gradient[i], c.scale, c.limit) + c.decay * w;
    const float a = accumulator[i] + g * g;
    accumulator[i] = a;
    weights[i] = w - c.rate * g / (std::sqrt(a) + c.epsilon);
  }
}

// Sum of g² over a row. The lanes fix one order of summation that any vector width can follow.
MUSTER_SIMD_CLONES
float RowSquares(const AdagradCoefficients c, size_t n, const float* __restrict gradient,
                 const float* __restrict weights) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const float g = UsedGradient(gradient[i + l], c.scale, c.limit) + c.decay * weights[i + l];
      lanes[l] += g * g;
    }
  }
  for (size_t l = 0; i + l < n; ++l) {
    const float g = UsedGradient(gradient[i + l], c.scale, c.limit) + c.decay * weights[i + l];
    lanes[l] += g * g;
  }
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

MUSTER_SIMD_CLONES
void RowStep(const AdagradCoefficients c, float rate, size_t n, const float* __restrict gradient,
             float* __restrict weights) {
  for (size_t i = 0; i < n; ++i) {
    const float w = weights[i];
    const float g = UsedGradient(gradient[i], c.scale, c.limit) + c.decay * w;
    weights[i] = w - rate * g;
  }
}

AdagradCoefficients AdagradCoefficientsOf(const OptimizerStep& step,
                                          const OptimizerOptions& options) {
  return {step.gradient_scale, step.clip_value, step.learning_rate,
          step.WeightDecay(options.weight_decay), options.epsilon};
}

class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override { return state_names_; }
  size_t state_floats(size_t n) const override { return n; }
  void InitState(absl::Span<const float>, absl::Span<float> state) const override {
    std::fill(state.begin(), state.end(), options_.initial_accumulator);
  }

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    AdagradLoop(AdagradCoefficientsOf(step, options_), weights.size(), gradient.data(),
                weights.data(), state.data());
  }

 private:
  const OptimizerOptions options_;
  const std::vector<std::string> state_names_ = {"accumulator"};
};

class RowWiseAdagrad final : public Optimizer {
 public:
  explicit RowWiseAdagrad(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override { return state_names_; }
  size_t state_floats(size_t) const override { return 1; }
  void InitState(absl::Span<const float>, absl::Span<float> state) const override {
    state[0] = options_.initial_accumulator;
  }

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    const size_t n = weights.size();
    if (n == 0) return;
    const AdagradCoefficients c = AdagradCoefficientsOf(step, options_);
    state[0] += RowSquares(c, n, gradient.data(), weights.data()) / static_cast<float>(n);
    RowStep(c, c.rate / (std::sqrt(state[0]) + c.epsilon), n, gradient.data(), weights.data());
  }

 private:
  const OptimizerOptions options_;
  const std::vector<std::string> state_names_ = {"accumulator"};
};

absl::StatusOr<OptimizerOptions> ReadAdagradOptions(const v1::OptimizerSpec& spec) {
  OptimizerOptions defaults;
  defaults.epsilon = 1e-10f;
  return ReadOptimizerOptions(spec, {"epsilon", "initial_accumulator", "weight_decay"}, defaults);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateAdagrad(const v1::OptimizerSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const OptimizerOptions options, ReadAdagradOptions(spec));
  return std::make_unique<Adagrad>(options);
}

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateRowWiseAdagrad(const v1::OptimizerSpec& spec,
                                                                      Granularity granularity) {
  if (granularity == Granularity::kElements) return CreateAdagrad(spec);
  MUSTER_ASSIGN_OR_RETURN(const OptimizerOptions options, ReadAdagradOptions(spec));
  return std::make_unique<RowWiseAdagrad>(options);
}

}  // namespace muster
