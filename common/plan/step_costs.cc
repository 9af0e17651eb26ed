#include "common/plan/step_costs.h"

#include <algorithm>

#include "common/optim/optimizer.h"
#include "common/plan/transformer_memory_plan.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr double kFloat = sizeof(float);

double Recomputed(const v1::ComputeSpec& compute, const TransformerSize& size) {
  const double attention = 2.0 * static_cast<double>(size.layers * size.C * size.T);
  if (compute.recompute() == v1::ComputeSpec::SELECTIVE) return attention;
  if (compute.recompute() != v1::ComputeSpec::FULL) return 0;
  // The last product of a block is not made again: nothing of its backward needs its result.
  const double block = static_cast<double>(size.C * (size.Q + size.C + size.U));
  return attention + 2 * static_cast<double>(size.layers) * block;
}

}  // namespace

StepCosts CostsOfStep(const v1::JobSpec& spec, const ModelSize& model) {
  StepCosts costs;
  for (const ProductSize& product : model.products) costs.multiplied += product.in * product.out;
  costs.items = spec.batch_size();
  costs.flops_per_item = 6.0 * static_cast<double>(costs.multiplied);
  if (!model.transformer.has_value()) return costs;
  const TransformerSize& size = *model.transformer;
  costs.items_are_tokens = true;
  costs.items *= size.T;
  costs.flops_per_item += 6.0 * static_cast<double>(size.layers * size.C * size.T);
  costs.recomputed_flops_per_item = Recomputed(spec.compute(), size);
  return costs;
}

std::vector<ZeroRow> ZeroTable(const v1::JobSpec& spec, const ModelSize& model) {
  const auto optimizer = CreateOptimizer(spec.optimizer(), Granularity::kElements);
  const double state_floats =
      optimizer.ok() ? static_cast<double>((*optimizer)->state_floats(1)) : 0;
  const bool half = model.transformer.has_value() && ComputesInHalf(spec.compute());
  const double workers = std::max(1u, spec.workers());
  const double weights = half ? 2 : kFloat;
  const double gradients = kFloat;
  const double state = kFloat * state_floats + (half ? kFloat : 0);
  std::vector<ZeroRow> rows;
  for (int stage = 0; stage <= 3; ++stage) {
    ZeroRow row;
    row.stage = stage;
    row.bytes_per_parameter = weights / (stage >= 3 ? workers : 1) +
                              gradients / (stage >= 2 ? workers : 1) +
                              state / (stage >= 1 ? workers : 1);
    row.worker_bytes =
        static_cast<uint64_t>(row.bytes_per_parameter * static_cast<double>(model.dense()));
    rows.push_back(row);
  }
  return rows;
}

}  // namespace muster
