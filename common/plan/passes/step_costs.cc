#include "common/plan/passes/step_costs.h"

#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {

double RecomputedOfBlock(const v1::ComputeSpec& compute, const TransformerSize& size,
                         uint64_t layer, double attended) {
  const double attention = 2.0 * static_cast<double>(size.A) * attended;
  if (compute.recompute() == v1::ComputeSpec::SELECTIVE) return attention;
  if (compute.recompute() != v1::ComputeSpec::FULL) return 0;
  // The last product of a block is not made again: nothing of its backward needs its result, but
  // for a shared expert's gate.
  uint64_t columns = size.Q + size.A + size.UpColumns(layer);
  if (size.experts.shared_gate && size.experts.IsExpertBlock(layer))
    columns += size.experts.shared_F;
  return attention + 2 * static_cast<double>(size.C * columns);
}

StepCosts CostsOfStep(const v1::JobSpec& spec, const ModelSize& model, double document_tokens) {
  StepCosts costs;
  for (const ProductSize& product : model.products) costs.multiplied += product.multiplied();
  costs.items = LargestBatch(spec);
  costs.flops_per_item = 6.0 * static_cast<double>(costs.multiplied);
  if (!model.transformer.has_value()) return costs;
  const TransformerSize& size = *model.transformer;
  const double tokens = document_tokens > 0 ? document_tokens : static_cast<double>(size.T);
  costs.items_are_tokens = true;
  costs.items *= size.T;
  for (uint64_t l = 0; l < size.layers; ++l) {
    const double attended = size.Attended(l, tokens);
    costs.flops_per_item += 6.0 * static_cast<double>(size.A) * attended;
    costs.recomputed_flops_per_item += RecomputedOfBlock(spec.compute(), size, l, attended);
  }
  return costs;
}

}  // namespace muster
