#include <algorithm>
#include <cmath>
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

struct AdamCoefficients {
  float scale;
  float limit;
  // λ of adam, 0 of adamw.
  float decay_in_gradient;
  // 1 - ηλ of adamw, 1 of adam.
  float shrink;
  float beta1;
  float add1;
  float beta2;
  float add2;
  // η / (1 - β₁ᵗ).
  float rate;
  // 1 / √(1 - β₂ᵗ).
  float root_correction;
  float epsilon;
};

MUSTER_SIMD_CLONES
void AdamLoop(const AdamCoefficients c, size_t n, const float* __restrict gradient,
              float* __restrict weights, float* __restrict ms, float* __restrict vs) {
  for (size_t i = 0; i < n; ++i) {
    const float w = weights[i];
    const float g = UsedGradient(gradient[i], c.scale, c.limit) + c.decay_in_gradient * w;
    const float m = c.beta1 * ms[i] + c.add1 * g;
    const float v = c.beta2 * vs[i] + c.add2 * g * g;
    ms[i] = m;
    vs[i] = v;
    weights[i] = c.shrink * w - c.rate * m / (std::sqrt(v) * c.root_correction + c.epsilon);
  }
}

enum class Decay { kInGradient, kDecoupled };

class Adam final : public Optimizer {
 public:
  Adam(const OptimizerOptions& options, Decay decay)
      : options_(options),
        decay_(decay),
        log_beta1_(std::log(double{options.beta1})),
        log_beta2_(std::log(double{options.beta2})) {}

  const std::vector<std::string>& state_names() const override { return state_names_; }
  size_t state_floats(size_t n) const override { return 2 * n; }
  void InitState(absl::Span<const float>, absl::Span<float> state) const override {
    std::fill(state.begin(), state.end(), 0.0f);
  }

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    const FlushSubnormals flush;
    const double t = static_cast<double>(step.step);
    const double rate = step.learning_rate;
    const double decay = step.WeightDecay(options_.weight_decay);
    AdamCoefficients c;
    c.scale = step.gradient_scale;
    c.limit = step.clip_value;
    c.decay_in_gradient = decay_ == Decay::kInGradient ? static_cast<float>(decay) : 0;
    c.shrink = decay_ == Decay::kDecoupled ? static_cast<float>(1 - rate * decay) : 1;
    c.beta1 = options_.beta1;
    c.add1 = 1 - options_.beta1;
    c.beta2 = options_.beta2;
    c.add2 = 1 - options_.beta2;
    c.rate = static_cast<float>(rate / -std::expm1(t * log_beta1_));
    c.root_correction = static_cast<float>(1 / std::sqrt(-std::expm1(t * log_beta2_)));
    c.epsilon = options_.epsilon;
    const size_t n = weights.size();
    AdamLoop(c, n, gradient.data(), weights.data(), state.data(), state.data() + n);
  }

 private:
  const OptimizerOptions options_;
  const Decay decay_;
  // 1 - βᵗ is -expm1(t ln β): exact where βᵗ is almost 1, and several times faster than pow, which
  // counts on short rows.
  const double log_beta1_;
  const double log_beta2_;
  const std::vector<std::string> state_names_ = {"m", "v"};
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateAdam(const v1::OptimizerSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const OptimizerOptions options, ReadAdamOptions(spec));
  return std::make_unique<Adam>(options, Decay::kInGradient);
}

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateAdamW(const v1::OptimizerSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const OptimizerOptions options, ReadAdamOptions(spec));
  return std::make_unique<Adam>(options, Decay::kDecoupled);
}

}  // namespace muster
