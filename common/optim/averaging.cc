#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/machine/simd_clones.h"
#include "common/optim/flush_subnormals.h"
#include "common/optim/optimizers.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// The difference is scaled, so that the average of a weight that stays is that weight.
MUSTER_SIMD_CLONES
void AverageLoop(float part, size_t n, const float* __restrict weights,
                 float* __restrict averages) {
  for (size_t i = 0; i < n; ++i) averages[i] += part * (weights[i] - averages[i]);
}

// An optimizer whose last state array is the average of the weights.
class Averaging final : public Optimizer {
 public:
  Averaging(std::unique_ptr<const Optimizer> optimizer, float decay)
      : optimizer_(std::move(optimizer)), decay_(decay), state_names_(optimizer_->state_names()) {
    state_names_.emplace_back(kAverageState);
  }

  const std::vector<std::string>& state_names() const override { return state_names_; }
  bool packs_pairs() const override { return optimizer_->packs_pairs(); }
  const MatrixRule* matrix_rule() const override { return optimizer_->matrix_rule(); }
  size_t state_floats(size_t n) const override { return optimizer_->state_floats(n) + n; }

  void InitState(absl::Span<const float> weights, absl::Span<float> state) const override {
    const size_t own = optimizer_->state_floats(weights.size());
    optimizer_->InitState(weights, state.first(own));
    std::copy(weights.begin(), weights.end(), state.begin() + own);
  }

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    optimizer_->Apply(step, gradient, weights,
                      state.first(optimizer_->state_floats(weights.size())));
    FollowWeights(weights, state);
  }

  void FollowWeights(absl::Span<const float> weights, absl::Span<float> state) const override {
    const FlushSubnormals flush;
    const size_t n = weights.size();
    AverageLoop(1 - decay_, n, weights.data(), state.data() + optimizer_->state_floats(n));
  }

 private:
  const std::unique_ptr<const Optimizer> optimizer_;
  const float decay_;
  std::vector<std::string> state_names_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Optimizer>> WithAverage(
    const v1::OptimizerSpec& spec, std::unique_ptr<const Optimizer> optimizer,
    Granularity granularity) {
  const float decay = spec.average_decay();
  if (!(decay >= 0 && decay < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.average_decay is ", decay,
                     ": it must be a number in (0, 1), such as 0.999, or 0 for no average"));
  }
  if (decay == 0 || granularity == Granularity::kRow) return optimizer;
  return std::make_unique<Averaging>(std::move(optimizer), decay);
}

}  // namespace muster
