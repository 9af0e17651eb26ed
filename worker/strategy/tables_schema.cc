#include "worker/strategy/tables_schema.h"

#include <limits>

#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/optim/schedule.h"
#include "common/partition/schema.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {

v1::TablesSchema MakeTablesSchema(const ModelDescription& model, const v1::JobSpec& spec,
                                  uint64_t total_steps) {
  v1::TablesSchema schema;
  SetTables(model.tensors, model.sparse_tables, schema);
  const DenseLayout::Options layout = LayoutOptions(spec.update());
  if (!TrainsByAllReduce(spec) && SizeAlong(Axis::kTensor, spec) > 1) {
    schema.set_tensor_ranks(SizeAlong(Axis::kTensor, spec));
  }
  if (!TrainsByAllReduce(spec) && SizeAlong(kExpertAxes, spec) > 1) {
    schema.set_expert_ranks(SizeAlong(kExpertAxes, spec));
  }
  schema.set_partitions(layout.partitions);
  schema.set_block_bytes(layout.block_bytes);
  *schema.mutable_optimizer() = spec.optimizer();
  schema.mutable_optimizer()->set_learning_rate(
      ScaledLearningRate(spec.schedule(), spec.optimizer().learning_rate(), spec.batch_size()));
  *schema.mutable_schedule() = spec.schedule();
  *schema.mutable_clipping() = spec.clipping();
  if (spec.clipping().measure_norm() && spec.clipping().by_global_norm() == 0) {
    // A limit that no norm exceeds: every road then measures the norm, and scales by 1.
    schema.mutable_clipping()->set_by_global_norm(std::numeric_limits<float>::infinity());
  }
  schema.set_seed(spec.seed());
  schema.set_total_steps(total_steps);
  if (spec.has_sparse_tables()) *schema.mutable_sparse_options() = spec.sparse_tables();
  return schema;
}

}  // namespace muster
