#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status_macros.h"
#include "common/optim/apply.h"
#include "common/optim/flush_subnormals.h"
#include "common/optim/optimizer_options.h"
#include "common/optim/optimizers.h"

namespace muster {
namespace {

struct SgdCoefficients {
  float scale;
  float limit;
  float rate;
  float decay;
  float momentum;
};

MUSTER_SIMD_CLONES
void SgdLoop(const SgdCoefficients c, size_t n, const float* __restrict gradient,
             float* __restrict weights) {
  for (size_t i = 0; i < n; ++i) {
    const float w = weights[i];
    const float g = UsedGradient(gradient[i], c.scale, c.limit) + c.decay * w;
    weights[i] = w - c.rate * g;
  }
}

MUSTER_SIMD_CLONES
void MomentumLoop(const SgdCoefficients c, size_t n, const float* __restrict gradient,
                  float* __restrict weights, float* __restrict momentum) {
  for (size_t i = 0; i < n; ++i) {
    const float w = weights[i];
    const float g = UsedGradient(gradient[i], c.scale, c.limit) + c.decay * w;
    const float m = c.momentum * momentum[i] + g;
    momentum[i] = m;
    weights[i] = w - c.rate * m;
  }
}

MUSTER_SIMD_CLONES
void NesterovLoop(const SgdCoefficients c, size_t n, const float* __restrict gradient,
                  float* __restrict weights, float* __restrict momentum) {
  for (size_t i = 0; i < n; ++i) {
    const float w = weights[i];
    const float g = UsedGradient(gradient[i], c.scale, c.limit) + c.decay * w;
    const float m = c.momentum * momentum[i] + g;
    momentum[i] = m;
    weights[i] = w - c.rate * (g + c.momentum * m);
  }
}

SgdCoefficients SgdCoefficientsOf(const OptimizerStep& step, const OptimizerOptions& options) {
  return {step.gradient_scale, step.clip_value, step.learning_rate,
          step.WeightDecay(options.weight_decay), options.momentum};
}

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override { return state_names_; }
  size_t state_floats(size_t) const override { return 0; }
  void InitState(absl::Span<const float>, absl::Span<float>) const override {}

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float>) const override {
    SgdLoop(SgdCoefficientsOf(step, options_), weights.size(), gradient.data(), weights.data());
  }

 private:
  const OptimizerOptions options_;
  const std::vector<std::string> state_names_;
};

using Loop = void (*)(SgdCoefficients, size_t, const float*, float*, float*);

class Momentum final : public Optimizer {
 public:
  Momentum(const OptimizerOptions& options, Loop loop) : options_(options), loop_(loop) {}

  const std::vector<std::string>& state_names() const override { return state_names_; }
  size_t state_floats(size_t n) const override { return n; }
  void InitState(absl::Span<const float>, absl::Span<float> state) const override {
    std::fill(state.begin(), state.end(), 0.0f);
  }

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    const FlushSubnormals flush;
    loop_(SgdCoefficientsOf(step, options_), weights.size(), gradient.data(), weights.data(),
          state.data());
  }

 private:
  const OptimizerOptions options_;
  const Loop loop_;
  const std::vector<std::string> state_names_ = {"momentum"};
};

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateWithMomentum(const v1::OptimizerSpec& spec,
                                                                    Loop loop) {
  MUSTER_ASSIGN_OR_RETURN(const OptimizerOptions options,
                          ReadOptimizerOptions(spec, {"momentum", "weight_decay"}, {}));
  return std::make_unique<Momentum>(options, loop);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateSgd(const v1::OptimizerSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const OptimizerOptions options,
                          ReadOptimizerOptions(spec, {"weight_decay"}, {}));
  return std::make_unique<Sgd>(options);
}

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateMomentum(const v1::OptimizerSpec& spec) {
  return CreateWithMomentum(spec, &MomentumLoop);
}

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateNesterov(const v1::OptimizerSpec& spec) {
  return CreateWithMomentum(spec, &NesterovLoop);
}

}  // namespace muster
