#include "common/plan/ranks/rank_size.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/schema.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/plan/passes/unit_costs.h"
#include "common/step/stage_spec.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

// More than any machine holds.
constexpr uint64_t kMostActivationRows = uint64_t{1} << 30;

// Makes the extents those of one rank of so many.
void Divide(const v1::JobSpec& spec, const Mesh& mesh, TransformerSize& size) {
  const uint64_t ranks = mesh.size(Axis::kTensor);
  size.context_ranks = mesh.size(kContext);
  size.context_exchange = ContextExchangeOf(spec);
  size.T /= size.context_ranks;
  const uint64_t head_dim = size.head_dim();
  size.heads /= ranks;
  size.kv_heads = std::max<uint64_t>(1, size.kv_heads / ranks);
  size.A = size.heads * head_dim;
  size.Q = (size.heads + 2 * size.kv_heads) * head_dim;
  // Norms of all heads together are not divided (common/job/validation/tensor_validator.cc).
  if (size.P > 0) size.P = (size.heads + size.kv_heads) * head_dim;
  size.U /= ranks;
  size.F /= ranks;
  size.V /= ranks;
  size.tensor_ranks = ranks;
  size.expert_ranks = mesh.size(kExpertAxes);
  if (ChoicesCountedOf(spec) == ChoicesCounted::kTogether)
    size.counting_ranks = mesh.size(kDataAxes);
  size.divides_tokens = DividesTokens(spec);
}

}  // namespace

absl::StatusOr<ModelDivision> PlannedDivision(const v1::JobSpec& spec, const ModelSize& model) {
  ModelDivision division = {.mesh = MeshOf(spec).Only(kShareAxes)};
  if (division.stages() > 1) {
    MUSTER_ASSIGN_OR_RETURN(division.virtual_stage_units,
                            VirtualStageSizes(spec, CostsOfUnits(spec, model)));
  }
  return division;
}

ModelStage StageOf(const v1::JobSpec& spec, const ModelSize& model, const ModelDivision& division,
                   int stage) {
  ModelStage result = {.shape = ShapeOfStages(spec), .stage = stage};
  result.sizes = division.virtual_stage_units;
  if (division.stages() == 1) result.sizes = {model.chunks[0].end};
  return result;
}

ModelSize SizeOfRank(const v1::JobSpec& spec, const ModelSize& model, const ModelDivision& division,
                     int stage) {
  const Mesh& mesh = division.mesh;
  if (mesh.world_size() == 1) return model;
  absl::StatusOr<std::vector<TensorSpec>> tensors =
      LocalTensors(model.tensors, division, mesh.Move(0, Axis::kPipeline, stage));
  if (!tensors.ok()) return model;
  ModelSize of_rank = model;
  of_rank.chunks.clear();
  const ModelStage units = StageOf(spec, model, division, stage);
  for (int chunk = 0; chunk < units.shape.chunks; ++chunk) {
    of_rank.chunks.push_back(units.UnitsOf(chunk, chunk));
    of_rank.chunks.back().end = std::min(of_rank.chunks.back().end, units.units());
  }
  of_rank.tensors = *std::move(tensors);
  of_rank.products.clear();
  for (ProductSize product : model.products) {
    const TensorSpec& tensor = of_rank.tensors[product.tensor];
    if (tensor.elements() == 0) continue;
    // As many tokens are multiplied with a rank's experts as it has itself, if these are balanced.
    product.out = static_cast<uint64_t>(tensor.shape[0]) * tensor.expert_ranks;
    product.in = static_cast<uint64_t>(tensor.shape[1]);
    of_rank.products.push_back(product);
  }
  if (of_rank.transformer.has_value()) Divide(spec, mesh, *of_rank.transformer);
  return of_rank;
}

absl::StatusOr<DenseLayout> LayoutOfLargeBlocks(absl::Span<const TensorSpec> tensors) {
  return DenseLayout::Create(tensors, {.block_bytes = uint64_t{1} << 42, .partitions = 1});
}

uint64_t BoundaryBytes(const v1::JobSpec& spec, absl::Span<const TensorSpec> tensors, int unit,
                       uint64_t examples, int rank) {
  if (!spec.model().has_transformer()) {
    // The rows of the layer's matrix.
    for (const TensorSpec& tensor : tensors) {
      if (static_cast<int>(tensor.unit) != unit || tensor.shape.size() != 2) continue;
      return examples * static_cast<uint64_t>(tensor.shape[0]) * sizeof(float);
    }
    return 0;
  }
  const v1::TransformerSpec& transformer = spec.model().transformer();
  uint64_t rows = std::min(examples * transformer.context(), kMostActivationRows);
  rows /= SizeAlong(kContext, spec);
  if (DividesTokens(spec)) {
    const uint32_t ranks = SizeAlong(Axis::kTensor, spec);
    const auto of_each = CeilDivide<uint64_t>(rows, ranks);
    // Tensor ranks are neighbours.
    const uint64_t before = std::min<uint64_t>(rows, rank % ranks * of_each);
    rows = std::min(of_each, rows - before);
  }
  return rows * transformer.width() * SizeOf(ActivationType(spec.compute()));
}

v1::TablesSchema PlannedSchema(const v1::JobSpec& spec, const ModelSize& model) {
  v1::TablesSchema schema;
  SetTables(model.tensors, model.sparse, schema);
  const DenseLayout::Options layout = LayoutOptions(spec.update());
  schema.set_partitions(layout.partitions);
  schema.set_block_bytes(layout.block_bytes);
  *schema.mutable_optimizer() = spec.optimizer();
  if (const absl::StatusOr<ModelDivision> division = PlannedDivision(spec, model);
      division.ok() && division->stages() > 1) {
    schema.set_pipeline(division->stages());
    schema.mutable_pipeline_layers()->Add(division->virtual_stage_units.begin(),
                                          division->virtual_stage_units.end());
  }
  return schema;
}

}  // namespace muster
