#include "common/tables/block_step.h"

#include "common/kernels/orthogonalise.h"

namespace muster {
namespace {

OptimizerStep StepOfGroup(const DenseLayout::Block& block, OptimizerStep step) {
  step.weight_decay = block.weight_decay;
  step.own_weight_decay = block.own_weight_decay;
  step.learning_rate *= block.rate;
  return step;
}

}  // namespace

void DirectBlock(const DenseLayout::Block& block, const Optimizer& optimizer,
                 const OptimizerStep& step, absl::Span<const float> gradient,
                 absl::Span<float> state) {
  MatrixRuleOf(block, optimizer)->Direct(StepOfGroup(block, step), gradient, state);
}

void StepBlock(const DenseLayout::Block& block, const Optimizer& optimizer, OptimizerStep step,
               absl::Span<const float> gradient, absl::Span<float> weights,
               absl::Span<float> state) {
  if (const MatrixRule* const rule = MatrixRuleOf(block, optimizer); rule != nullptr) {
    if (block.whole_matrix()) {
      DirectBlock(block, optimizer, step, gradient, state);
      Orthogonalise(block.rows, block.columns, MatrixRule::Direction(state, weights.size()));
    }
    rule->Move(StepOfGroup(block, step), block.rows, block.columns, gradient, weights, state);
    optimizer.FollowWeights(weights, state);
    return;
  }
  if (block.sign_rate == 0) {
    optimizer.Apply(StepOfGroup(block, step), gradient, weights, state);
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
