#include "common/tables/block_step.h"

namespace muster {

void StepBlock(const DenseLayout::Block& block, const Optimizer& optimizer, OptimizerStep step,
               absl::Span<const float> gradient, absl::Span<float> weights,
               absl::Span<float> state) {
  if (block.sign_rate == 0) {
    step.weight_decay = block.weight_decay;
    step.own_weight_decay = block.own_weight_decay;
    step.learning_rate *= block.rate;
    optimizer.Apply(step, gradient, weights, state);
    return;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const float g = gradient[i];
    if (g == 0) continue;
    weights[i] -= g > 0 ? block.sign_rate : g < 0 ? -block.sign_rate : g;
  }
  optimizer.FollowWeights(weights, state);
}

}  // namespace muster
