#include "common/plan/passes/unit_costs.h"

#include <cstddef>

#include "absl/types/optional.h"
#include "common/compute/activation_layout.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/optim/optimizer.h"
#include "common/plan/passes/step_costs.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/step/stage_spec.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Returns the bytes of a parameter of the tensor in all that its worker keeps of it.
double StateBytes(const v1::JobSpec& spec, const TensorSpec& tensor) {
  double bytes = 2 * sizeof(float);
  if (SizeOf(tensor.compute) < sizeof(float)) bytes += SizeOf(tensor.compute);
  if (!tensor.tied_to.empty() || !TrainsByAllReduce(spec)) return bytes;
  const auto optimizer = CreateOptimizer(spec.optimizer(), Granularity::kElements);
  return optimizer.ok() ? bytes + sizeof(float) * static_cast<double>((*optimizer)->state_floats(1))
                        : bytes;
}

void AddPerceptron(double examples, const ModelSize& model, std::vector<UnitCost>& units) {
  for (size_t unit = 0; unit < units.size(); ++unit) {
    const ProductSize& product = model.products[unit];
    const double operations = 2 * examples * static_cast<double>(product.in * product.out);
    units[unit].operations = {operations, operations, operations};
    units[unit].activation_bytes = sizeof(float) * examples * static_cast<double>(product.out);
  }
}

void AddTransformer(const v1::JobSpec& spec, const TransformerSize& size,
                    std::vector<UnitCost>& units) {
  const uint64_t sequences = LargestMicroBatch(spec);
  const auto tokens = static_cast<double>(TokensOf(size, sequences));
  const auto C = static_cast<double>(size.C);
  ActivationRequest request = ActivationRequestOf(size, sequences, spec.compute());
  request.split_backward = ShapeOfStages(spec).order == StageOrder::kZeroBubble;
  // The bytes that a dense block keeps, and those of a block of experts.
  absl::optional<double> kept[2];
  units.front().operations = {tokens * C, 0, tokens * C};
  for (uint64_t l = 0; l < size.layers; ++l) {
    const double T = size.Attended(l, static_cast<double>(size.T));
    const double attention = 2 * static_cast<double>(size.A) * T;
    const double products =
        2 * C * static_cast<double>(size.Q + size.A + size.UpColumns(l) + size.DownColumns(l));
    const double again = RecomputedOfBlock(spec.compute(), size, l, T);
    absl::optional<double>& of_block = kept[size.experts.IsExpertBlock(l)];
    if (!of_block.has_value()) {
      request.first_layer = l;
      request.layers = 1;
      of_block = static_cast<double>(ActivationLayout(request).bytes().kept);
    }
    units[1 + l].operations = {tokens * (products + attention),
                               tokens * (products + 2 * attention + again), tokens * products};
    units[1 + l].activation_bytes = *of_block;
  }
  const double head = 2 * tokens * C * static_cast<double>(size.V);
  units.back().operations = {head, head, head};
}

}  // namespace

std::vector<UnitCost> CostsOfUnits(const v1::JobSpec& spec, const ModelSize& model) {
  std::vector<UnitCost> units(model.tensors.back().unit + 1);
  for (const TensorSpec& tensor : model.tensors) {
    units[tensor.unit].state_bytes +=
        StateBytes(spec, tensor) * static_cast<double>(tensor.elements());
  }
  if (model.transformer.has_value()) {
    AddTransformer(spec, *model.transformer, units);
  } else {
    AddPerceptron(LargestMicroBatch(spec), model, units);
  }
  return units;
}

absl::StatusOr<std::vector<int>> VirtualStageSizes(const v1::JobSpec& spec,
                                                   const std::vector<UnitCost>& units) {
  const auto& layers = spec.parallelism().pipeline_layers();
  if (layers.empty()) return DivideUnits(ShapeOfStages(spec), units);
  return std::vector<int>(layers.begin(), layers.end());
}

}  // namespace muster
