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

struct FtrlCoefficients {
  float scale;
  float limit;
  // 1 / η.
  float inverse_rate;
  float beta;
  float l1;
  float l2;
};

// With D = (β + √(n+g²))/η + l2, the formula that made the present w ≠ 0 out of z, solved for z and
// moved by this step, is
//
//   z = g - wD - sgn(w) l1
//
// and what it makes of that is w - g/D as long as the sign of w stays: computed so, a gradient of 0
// leaves w as it is to the last bit, and an l1 much larger than wD cancels nothing. A w of 0 says
// nothing of z, which the state holds.
MUSTER_SIMD_CLONES
void FtrlLoop(const FtrlCoefficients c, size_t n, const float* __restrict gradient,
              float* __restrict weights, float* __restrict zs, float* __restrict ns) {
  for (size_t i = 0; i < n; ++i) {
    const float w = weights[i];
    const float g = UsedGradient(gradient[i], c.scale, c.limit);
    const float squares = ns[i] + g * g;
    const float divisor = (c.beta + std::sqrt(squares)) * c.inverse_rate + c.l2;
    const float from_state = zs[i] + g;
    const float from_weight = g - w * divisor - std::copysign(c.l1, w);
    const float z = w == 0.0f ? from_state : from_weight;
    const float moved = w - g / divisor;
    const float soft = -(z - std::copysign(c.l1, z)) / divisor;
    const float limited = std::fabs(z) <= c.l1 ? 0.0f : soft;
    const float next = moved * w > 0.0f ? moved : limited;
    zs[i] = z;
    ns[i] = squares;
    // The divisor is 0 only if there is neither β nor l2 nor any gradient yet.
    weights[i] = divisor == 0.0f ? w : next;
  }
}

class Ftrl final : public Optimizer {
 public:
  explicit Ftrl(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override { return state_names_; }
  size_t state_floats(size_t n) const override { return 2 * n; }
  void InitState(absl::Span<const float> weights, absl::Span<float> state) const override {
    const size_t n = weights.size();
    std::fill_n(state.begin(), n, 0.0f);
    std::fill_n(state.begin() + n, n, options_.initial_accumulator);
  }

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    // σ = Δ√n / η has no value at a rate of 0.
    if (step.learning_rate == 0) return;
    const FtrlCoefficients c = {step.gradient_scale,
                                step.clip_value,
                                1 / step.learning_rate,
                                options_.beta,
                                step.weight_decay ? options_.l1 : 0,
                                step.weight_decay ? options_.l2 : 0};
    const size_t n = weights.size();
    FtrlLoop(c, n, gradient.data(), weights.data(), state.data(), state.data() + n);
  }

 private:
  const OptimizerOptions options_;
  const std::vector<std::string> state_names_ = {"z", "n"};
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateFtrl(const v1::OptimizerSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(
      const OptimizerOptions options,
      ReadOptimizerOptions(spec, {"beta", "l1", "l2", "initial_accumulator"}, {}));
  return std::make_unique<Ftrl>(options);
}

}  // namespace muster
