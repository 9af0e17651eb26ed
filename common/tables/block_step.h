#ifndef MUSTER_COMMON_TABLES_BLOCK_STEP_H_
#define MUSTER_COMMON_TABLES_BLOCK_STEP_H_

#include <cstddef>

#include "absl/types/span.h"
#include "common/optim/optimizer.h"
#include "common/partition/dense_layout.h"

namespace muster {

// Returns the floats of optimizer state that a block has: none if it is frozen.
inline size_t StateFloats(const DenseLayout::Block& block, const Optimizer& optimizer) {
  return block.frozen ? 0 : optimizer.state_floats(block.elements());
}

// Makes one step on elements of a block, by the rule of its tensors: the optimizer's, with the
// learning rate and the weight decay of their group (TensorSpec::rate, own_weight_decay), or that
// of TensorSpec::sign_rate, which reads neither the step nor the optimizer's own state; an average
// follows either. There a NaN gradient makes its element NaN. Spans as for Optimizer::Apply.
// REQUIRES: the block is not frozen.
void StepBlock(const DenseLayout::Block& block, const Optimizer& optimizer, OptimizerStep step,
               absl::Span<const float> gradient, absl::Span<float> weights,
               absl::Span<float> state);

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_BLOCK_STEP_H_
