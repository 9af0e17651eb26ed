#include "client/plan/job_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/compare/traffic_prediction.h"
#include "common/base/status_macros.h"
#include "common/optim/optimizer.h"
#include "common/plan/distinct_rows.h"
#include "common/plan/transformer_device_plan.h"
#include "common/plan/transformer_memory_plan.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

absl::Status Missing(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is left out; a plan needs ", what, ", as `muster submit` does"));
}

absl::Status CheckPlannable(const v1::JobSpec& spec) {
  if (spec.model().model_case() == v1::ModelSpec::MODEL_NOT_SET) return Missing("model", "a model");
  if (spec.data().reader_case() == v1::DataSpec::READER_NOT_SET) {
    return Missing("data", "to know its examples");
  }
  if (spec.batch_size() == 0) return Missing("batch_size", "the number of examples of a step");
  if (!spec.model().has_transformer()) return absl::OkStatus();
  const v1::TransformerSpec& model = spec.model().transformer();
  if (model.layers() == 0) return Missing("model.transformer.layers", "it");
  if (model.width() == 0) return Missing("model.transformer.width", "it");
  if (model.heads() == 0 || model.width() % model.heads() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model.transformer.heads is ", model.heads(),
                                                   "; it must divide model.transformer.width, ",
                                                   "which is ", model.width()));
  }
  if (model.context() == 0) return Missing("model.transformer.context", "it");
  return absl::OkStatus();
}

// Partitions dealt round robin, as placement does.
std::vector<v1::PartitionPlacement> Deal(uint32_t partitions, uint32_t servers) {
  std::vector<v1::PartitionPlacement> dealt(partitions);
  for (uint32_t p = 0; p < partitions; ++p) {
    dealt[p].set_partition(p);
    v1::Replica& replica = *dealt[p].add_replicas();
    replica.set_server_id(absl::StrCat("server ", p % servers));
    replica.set_role(v1::Replica::PRIMARY);
  }
  return dealt;
}

// Of a gradient on the wire.
int ElementBytes(const v1::UpdateSpec& update) {
  const bool half = update.wire() == v1::UpdateSpec::BF16 || update.wire() == v1::UpdateSpec::F16;
  return half ? 2 : 4;
}

absl::StatusOr<RoadTraffic> ServerTraffic(const JobPlan& plan, const v1::TablesSchema& schema) {
  const std::vector<v1::PartitionPlacement> dealt =
      Deal(schema.partitions(), std::max(1u, plan.spec.servers()));
  std::vector<const v1::PartitionPlacement*> partitions;
  for (const v1::PartitionPlacement& placement : dealt) partitions.push_back(&placement);
  MUSTER_ASSIGN_OR_RETURN(const PredictedTraffic traffic,
                          PredictServerTraffic(schema, partitions, plan.spec));
  RoadTraffic road;
  const WorkerTraffic mean = MeanOf(traffic.workers);
  road.sent = mean.sent;
  road.received = mean.received;
  return road;
}

// Keys and rows of one worker's step. By servers keys go out with each pull and again with each
// push; by all-reduce each worker's keys and gradients reach every other.
void AddRows(const JobPlan& plan, RoadTraffic& road) {
  if (plan.model.sparse.empty()) return;
  const uint64_t workers = std::max(1u, plan.spec.workers());
  const uint64_t share = (plan.spec.batch_size() + workers - 1) / workers;
  const double rows = static_cast<double>(DistinctRows(plan.model, plan.data, share));
  const bool rows_by_servers = !road.all_reduce || RowsOnServers(plan.spec);
  const double element = rows_by_servers ? ElementBytes(plan.spec.update()) : 4;
  const double values = element * static_cast<double>(plan.model.row_dim());
  if (rows_by_servers) {
    road.rows_sent = rows * (8 + 8 + values);
    road.rows_received = rows * values;
  } else {
    road.rows_sent = rows * (8 + values) * static_cast<double>(workers - 1);
    road.rows_received = road.rows_sent;
  }
}

uint64_t ActivationBytes(const v1::JobSpec& spec, const ModelSize& model) {
  const uint64_t sequences = MicroBatchExamples(spec);
  if (spec.compute().device() == v1::ComputeSpec::CUDA) {
    return PlanDeviceBytes(spec, model, sequences).activations;
  }
  return PlanActivations(*model.transformer, sequences, spec.compute(), ActivationsOf::kTraining)
      .total();
}

std::vector<RecomputePlan> CompareRecompute(const JobPlan& plan) {
  std::vector<RecomputePlan> plans;
  if (!plan.model.transformer.has_value()) return plans;
  for (const auto recompute :
       {v1::ComputeSpec::NONE, v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    v1::JobSpec spec = plan.spec;
    spec.mutable_compute()->set_recompute(recompute);
    RecomputePlan one;
    one.recompute = recompute;
    const MemoryPlan memory = PlanMemory(spec, plan.data, plan.processors);
    one.worker_bytes = memory.worker_bytes();
    one.device_bytes = memory.device_bytes();
    one.activation_bytes = ActivationBytes(spec, plan.model);
    plans.push_back(one);
  }
  return plans;
}

}  // namespace

absl::StatusOr<JobPlan> PlanJob(const v1::JobSpec& spec, const DataSize& data,
                                const WorkerProcessors& processors) {
  MUSTER_RETURN_IF_ERROR(CheckPlannable(spec));
  MUSTER_RETURN_IF_ERROR(CreateOptimizer(spec.optimizer(), Granularity::kElements).status());
  JobPlan plan;
  plan.spec = spec;
  plan.data = data;
  plan.processors = processors;
  plan.model = SizeOfModel(spec, data);
  plan.memory = PlanMemory(spec, data, processors);
  plan.recompute = CompareRecompute(plan);
  plan.costs = CostsOfStep(spec, plan.model);
  plan.zero = ZeroTable(spec, plan.model);

  const v1::TablesSchema schema = PlannedSchema(spec, plan.model);
  MUSTER_ASSIGN_OR_RETURN(RoadTraffic servers, ServerTraffic(plan, schema));
  AddRows(plan, servers);
  RoadTraffic all_reduce;
  all_reduce.all_reduce = true;
  const auto workers = static_cast<int>(std::max(1u, spec.workers()));
  // Where the tasks will be is not known.
  const bool on_device = spec.compute().device() == v1::ComputeSpec::CUDA;
  MUSTER_ASSIGN_OR_RETURN(
      const PredictedTraffic traffic,
      PredictAllReduceTraffic(schema, spec.update(), workers,
                              on_device ? AllReduceWay::kDevices : AllReduceWay::kSharedMemory));
  const WorkerTraffic mean = MeanOf(traffic.workers);
  all_reduce.sent = mean.sent;
  all_reduce.received = mean.received;
  AddRows(plan, all_reduce);
  plan.traffic = {servers, all_reduce};
  return plan;
}

}  // namespace muster
