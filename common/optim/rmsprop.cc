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

struct RmspropCoefficients {
  float scale;
  float limit;
  float rate;
  float weight_decay;
  float keep;
  float add;
  float epsilon;
};

MUSTER_SIMD_CLONES
void RmspropLoop(const RmspropCoefficients c, size_t n, const float* __restrict gradient,
                 float* __restrict weights, float* __restrict accumulator) {
  for (size_t i = 0; i < n; ++i) {
    const float w = weights[i];
    const float g = UsedGradient(gradient[i], c.scale, c.limit) + c.weight_decay * w;
    const float a = c.keep * accumulator[i] + c.add * g * g;
    accumulator[i] = a;
    weights[i] = w - c.rate * g / (std::sqrt(a) + c.epsilon);
  }
}

class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override { return state_names_; }
  size_t state_floats(size_t n) const override { return n; }
  void InitState(absl::Span<const float>, absl::Span<float> state) const override {
    std::fill(state.begin(), state.end(), 0.0f);
  }

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    const FlushSubnormals flush;
    const RmspropCoefficients c = {step.gradient_scale, step.clip_value,
                                   step.learning_rate,  step.WeightDecay(options_.weight_decay),
                                   options_.decay,      1 - options_.decay,
                                   options_.epsilon};
    RmspropLoop(c, weights.size(), gradient.data(), weights.data(), state.data());
  }

 private:
  const OptimizerOptions options_;
  const std::vector<std::string> state_names_ = {"accumulator"};
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateRmsprop(const v1::OptimizerSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const OptimizerOptions options,
                          ReadOptimizerOptions(spec, {"decay", "epsilon", "weight_decay"}, {}));
  return std::make_unique<Rmsprop>(options);
}

}  // namespace muster
