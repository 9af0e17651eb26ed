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

struct LionCoefficients {
  float scale;
  float limit;
  float rate;
  // 1 - ηλ.
  float shrink;
  float beta1;
  float add1;
  float beta2;
  float add2;
};

MUSTER_SIMD_CLONES
void LionLoop(const LionCoefficients c, size_t n, const float* __restrict gradient,
              float* __restrict weights, float* __restrict ms) {
  for (size_t i = 0; i < n; ++i) {
    const float g = UsedGradient(gradient[i], c.scale, c.limit);
    const float direction = c.beta1 * ms[i] + c.add1 * g;
    // A NaN stays one, and 0 is 0.
    const float below = direction < 0 ? -1.0f : direction;
    const float sign = direction > 0 ? 1.0f : below;
    ms[i] = c.beta2 * ms[i] + c.add2 * g;
    weights[i] = c.shrink * weights[i] - c.rate * sign;
  }
}

class Lion final : public Optimizer {
 public:
  explicit Lion(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override { return state_names_; }
  size_t state_floats(size_t n) const override { return n; }
  void InitState(absl::Span<const float>, absl::Span<float> state) const override {
    std::fill(state.begin(), state.end(), 0.0f);
  }

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    const FlushSubnormals flush;
    const double rate = step.learning_rate;
    const double decay = step.WeightDecay(options_.weight_decay);
    const LionCoefficients c = {step.gradient_scale, step.clip_value,
                                step.learning_rate,  static_cast<float>(1 - rate * decay),
                                options_.beta1,      1 - options_.beta1,
                                options_.beta2,      1 - options_.beta2};
    LionLoop(c, weights.size(), gradient.data(), weights.data(), state.data());
  }

 private:
  const OptimizerOptions options_;
  const std::vector<std::string> state_names_ = {"m"};
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateLion(const v1::OptimizerSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(
      const OptimizerOptions options,
      ReadOptimizerOptions(spec, {"beta1", "beta2", "weight_decay"}, {.beta2 = 0.99f}));
  return std::make_unique<Lion>(options);
}

}  // namespace muster
