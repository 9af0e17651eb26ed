#ifndef MUSTER_COMMON_TABLES_BLOCK_STEP_H_
#define MUSTER_COMMON_TABLES_BLOCK_STEP_H_

#include <cstddef>

#include "absl/types/span.h"
#include "common/optim/matrix_rule.h"
#include "common/optim/optimizer.h"
#include "common/partition/dense_layout.h"

namespace muster {

// Returns the floats of optimizer state that a block has: none if it is frozen.
inline size_t StateFloats(const DenseLayout::Block& block, const Optimizer& optimizer) {
  return block.frozen ? 0 : optimizer.state_floats(block.elements());
}

// Returns the rule by which the optimizer moves the block's matrix as a whole; null: the block is
// of no matrix, or the optimizer moves its elements as any.
inline const MatrixRule* MatrixRuleOf(const DenseLayout::Block& block, const Optimizer& optimizer) {
  return block.of_matrix() ? optimizer.matrix_rule() : nullptr;
}

// Writes the direction of a step before it is orthogonalised into the state of elements of a block
// (MatrixRule::Direct). REQUIRES: it has a MatrixRule.
void DirectBlock(const DenseLayout::Block& block, const Optimizer& optimizer,
                 const OptimizerStep& step, absl::Span<const float> gradient,
                 absl::Span<float> state);

// Makes one step on elements of a block, by the rule of its tensors: the optimizer's, with the
// learning rate and the weight decay of their group (TensorSpec::rate, own_weight_decay), or that
// of TensorSpec::sign_rate, which reads neither the step nor the optimizer's own state; an average
// follows either. There a NaN gradient makes its element NaN. Spans as for Optimizer::Apply.
//
// A whole matrix with a MatrixRule is orthogonalised here, by all threads of the caller's products
// (common/kernels/matmul.h); so not from inside a ParallelFor. Of elements of another's part the
// state must have the orthogonalised direction of this step already.
// REQUIRES: the block is not frozen.
void StepBlock(const DenseLayout::Block& block, const Optimizer& optimizer, OptimizerStep step,
               absl::Span<const float> gradient, absl::Span<float> weights,
               absl::Span<float> state);

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_BLOCK_STEP_H_
