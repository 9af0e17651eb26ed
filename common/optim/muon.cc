#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/optim/apply.h"
#include "common/optim/flush_subnormals.h"
#include "common/optim/matrix_rule.h"
#include "common/optim/optimizer_options.h"
#include "common/optim/optimizers.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// With it the elements of a matrix's step are about as large as those of adamw's (Liu et al. 2025,
// §2.2), so both serve the same learning rates and weight decays.
constexpr double kSizeOfAdamW = 0.2;

struct MuonCoefficients {
  float scale;
  float limit;
  float momentum;
  // η times the scale of the matrix.
  float rate;
  // 1 - ηλ.
  float shrink;
};

MUSTER_SIMD_CLONES
void DirectLoop(const MuonCoefficients c, size_t n, const float* __restrict gradient,
                const float* __restrict ms, float* __restrict directions) {
  for (size_t i = 0; i < n; ++i) {
    const float g = UsedGradient(gradient[i], c.scale, c.limit);
    directions[i] = g + c.momentum * (c.momentum * ms[i] + g);
  }
}

MUSTER_SIMD_CLONES
void MoveLoop(const MuonCoefficients c, size_t n, const float* __restrict gradient,
              const float* __restrict directions, float* __restrict weights, float* __restrict ms) {
  for (size_t i = 0; i < n; ++i) {
    const float g = UsedGradient(gradient[i], c.scale, c.limit);
    ms[i] = c.momentum * ms[i] + g;
    weights[i] = c.shrink * weights[i] - c.rate * directions[i];
  }
}

// Steps elements that are of no matrix as adamw, and has the rule of the others.
class Muon final : public Optimizer {
 public:
  Muon(std::unique_ptr<const Optimizer> adamw, const MatrixRule& rule)
      : adamw_(std::move(adamw)), rule_(rule) {}

  const std::vector<std::string>& state_names() const override { return adamw_->state_names(); }
  size_t state_floats(size_t n) const override { return adamw_->state_floats(n); }
  void InitState(absl::Span<const float> weights, absl::Span<float> state) const override {
    adamw_->InitState(weights, state);
  }
  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    adamw_->Apply(step, gradient, weights, state);
  }
  const MatrixRule* matrix_rule() const override { return &rule_; }

 private:
  const std::unique_ptr<const Optimizer> adamw_;
  const MatrixRule rule_;
};

}  // namespace

void MatrixRule::Direct(const OptimizerStep& step, absl::Span<const float> gradient,
                        absl::Span<float> state) const {
  const FlushSubnormals flush;
  const size_t n = gradient.size();
  const MuonCoefficients c = {
      .scale = step.gradient_scale, .limit = step.clip_value, .momentum = momentum_};
  DirectLoop(c, n, gradient.data(), state.data(), state.data() + n);
}

void MatrixRule::Move(const OptimizerStep& step, int64_t rows, int64_t columns,
                      absl::Span<const float> gradient, absl::Span<float> weights,
                      absl::Span<float> state) const {
  const FlushSubnormals flush;
  const double rate = step.learning_rate;
  const double decay = step.WeightDecay(weight_decay_);
  const double of_matrix = kSizeOfAdamW * std::sqrt(static_cast<double>(std::max(rows, columns)));
  const size_t n = weights.size();
  const MuonCoefficients c = {.scale = step.gradient_scale,
                              .limit = step.clip_value,
                              .momentum = momentum_,
                              .rate = static_cast<float>(rate * of_matrix),
                              .shrink = static_cast<float>(1 - rate * decay)};
  MoveLoop(c, n, gradient.data(), state.data() + n, weights.data(), state.data());
}

absl::StatusOr<std::unique_ptr<const Optimizer>> CreateMuon(const v1::OptimizerSpec& spec) {
  OptimizerOptions defaults;
  defaults.momentum = 0.95f;
  defaults.weight_decay = 0.01f;
  MUSTER_ASSIGN_OR_RETURN(
      const OptimizerOptions options,
      ReadOptimizerOptions(spec, {"momentum", "beta1", "beta2", "epsilon", "weight_decay"},
                           defaults));
  v1::OptimizerSpec adamw = spec;
  adamw.set_name("adamw");
  adamw.clear_momentum();
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Optimizer> elements, CreateAdamW(adamw));
  return std::make_unique<Muon>(std::move(elements),
                                MatrixRule(options.momentum, options.weight_decay));
}

}  // namespace muster
