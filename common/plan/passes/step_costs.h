#ifndef MUSTER_COMMON_PLAN_PASSES_STEP_COSTS_H_
#define MUSTER_COMMON_PLAN_PASSES_STEP_COSTS_H_

#include <cstdint>

#include "common/plan/size/model_size.h"

namespace muster {

namespace v1 {
class ComputeSpec;
class JobSpec;
}  // namespace v1

// Floating-point operations of one step over the whole batch, of matrix products and attention; an
// addition and a multiplication are two. With N parameters that are multiplied with (biases, norms
// and looked-up rows are not; of experts those that a token goes to): 6 N per example, of which 2 N
// forward; of a transformer per token, and 6 L C T for attention's causal half (Chowdhery et al.,
// "PaLM", 2022, appendix B, whose 12 L C T counts all of it). Where attention stays within
// documents, their mean length (DataSize) stands for the T of attention.
struct StepCosts {
  uint64_t multiplied = 0;
  // What a rate is counted in: tokens of a transformer's batch, or its examples.
  uint64_t items = 0;
  bool items_are_tokens = false;
  double flops_per_item = 0;
  // What recomputation does once more.
  double recomputed_flops_per_item = 0;

  double flops() const { return flops_per_item * static_cast<double>(items); }
};

// `document_tokens` is DataSize's.
StepCosts CostsOfStep(const v1::JobSpec& spec, const ModelSize& model, double document_tokens = 0);

// Returns the operations of a block that backward makes again, per token, where attention looks at
// so many tokens.
double RecomputedOfBlock(const v1::ComputeSpec& compute, const TransformerSize& size,
                         uint64_t layer, double attended);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_PASSES_STEP_COSTS_H_
