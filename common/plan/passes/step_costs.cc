#include "common/plan/passes/step_costs.h"

#include "proto/job.pb.h"

namespace muster {
double RecomputedOfBlock(const v1::ComputeSpec& compute, const TransformerSize& size,
                         double attended) {
  const double attention = 2.0 * static_cast<double>(size.C) * attended;
  if (compute.recompute() == v1::ComputeSpec::SELECTIVE) return attention;
  if (compute.recompute() != v1::ComputeSpec::FULL) return 0;
  // The last product of a block is not made again: nothing of its backward needs its result.
  return attention + 2 * static_cast<double>(size.C * (size.Q + size.C + size.U));
}

StepCosts CostsOfStep(const v1::JobSpec& spec, const ModelSize& model, double document_tokens) {
  StepCosts costs;
  for (const ProductSize& product : model.products) costs.multiplied += product.in * product.out;
  costs.items = spec.batch_size();
  costs.flops_per_item = 6.0 * static_cast<double>(costs.multiplied);
  if (!model.transformer.has_value()) return costs;
  const TransformerSize& size = *model.transformer;
  const double attended = document_tokens > 0 ? document_tokens : static_cast<double>(size.T);
  costs.items_are_tokens = true;
  costs.items *= size.T;
  costs.flops_per_item += 6.0 * static_cast<double>(size.layers * size.C) * attended;
  costs.recomputed_flops_per_item =
      static_cast<double>(size.layers) * RecomputedOfBlock(spec.compute(), size, attended);
  return costs;
}

}  // namespace muster
