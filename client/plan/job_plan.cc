#include "client/plan/job_plan.h"

#include <utility>

#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/ranks/rank_size.h"
#include "common/plan/size/distinct_rows.h"
#include "common/plan/size/layout_validator.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

// Returns the bytes of an element of a gradient on the wire.
int ElementBytes(const v1::UpdateSpec& update) {
  const bool half = update.wire() == v1::UpdateSpec::BF16 || update.wire() == v1::UpdateSpec::F16;
  return half ? 2 : 4;
}

// Returns the traffic of a road, of which this is the mean of each stage.
RoadTraffic TrafficOf(bool all_reduce, std::vector<AxisTraffic> stages) {
  RoadTraffic road;
  road.all_reduce = all_reduce;
  for (const AxisTraffic& stage : stages) {
    // All stages have as many workers.
    road.sent += stage.total().sent / static_cast<double>(stages.size());
    road.received += stage.total().received / static_cast<double>(stages.size());
  }
  road.stages = std::move(stages);
  return road;
}

// Returns the job on parameter servers.
v1::JobSpec OnServers(const v1::JobSpec& spec) {
  v1::JobSpec on_servers = spec;
  v1::UpdateSpec& update = *on_servers.mutable_update();
  if (!TrainsByAllReduce(spec)) return on_servers;
  update.set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  update.set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  update.clear_first_bucket_bytes();
  update.clear_bucket_bytes();
  on_servers.clear_min_workers();
  on_servers.clear_max_workers();
  on_servers.clear_scale_batch();
  on_servers.mutable_parallelism()->clear_zero();
  return on_servers;
}

absl::StatusOr<RoadTraffic> ServerTraffic(const v1::JobSpec& spec, const v1::TablesSchema& schema) {
  MUSTER_ASSIGN_OR_RETURN(
      std::vector<AxisTraffic> stages,
      PredictMeanTraffic(schema, spec, CallRoad::kServers, AllReduceWay::kSharedMemory));
  return TrafficOf(/*all_reduce=*/false, std::move(stages));
}

absl::StatusOr<RoadTraffic> AllReduceTraffic(const JobPlan& plan, const v1::TablesSchema& schema) {
  // The places of the tasks are not known yet.
  const bool on_device = plan.spec.compute().device() == v1::ComputeSpec::CUDA;
  MUSTER_ASSIGN_OR_RETURN(
      std::vector<AxisTraffic> stages,
      PredictMeanTraffic(schema, plan.spec, CallRoad::kAllReduce,
                         on_device ? AllReduceWay::kDevices : AllReduceWay::kSharedMemory));
  return TrafficOf(/*all_reduce=*/true, std::move(stages));
}

// Keys and rows of one worker's step. By servers keys go out with each pull and again with each
// push; by all-reduce each worker's keys and gradients reach every other.
void AddRows(const JobPlan& plan, RoadTraffic& road) {
  if (plan.model.sparse.empty()) return;
  const uint64_t share =
      CeilDivide<uint64_t>(LargestBatch(plan.spec), SizeAlong(kDataAxes, plan.spec));
  const double rows = static_cast<double>(DistinctRows(plan.model, plan.data, share));
  const bool rows_by_servers = !road.all_reduce || IsHybrid(plan.spec);
  const double element = rows_by_servers ? ElementBytes(plan.spec.update()) : 4;
  const double values = element * static_cast<double>(plan.model.row_dim());
  if (rows_by_servers) {
    road.rows_sent = rows * (8 + 8 + values);
    road.rows_received = rows * values;
  } else {
    road.rows_sent = rows * (8 + values) * static_cast<double>(plan.spec.workers() - 1);
    road.rows_received = road.rows_sent;
  }
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
    one.activation_bytes = memory.activation_bytes;
    plans.push_back(one);
  }
  return plans;
}

// A job on servers is planned as if it trained by all-reduce.
std::vector<StagePlan> CompareStages(const JobPlan& plan) {
  std::vector<StagePlan> stages;
  v1::JobSpec spec = plan.spec;
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  v1::ZeroSpec& zero = *spec.mutable_parallelism()->mutable_zero();
  zero.set_stage(3);
  const double N = SmallestShardGroup(spec);
  const bool divides = N > 1 && plan.model.dense() > 0;
  if (!divides || spec.update().wire() == v1::UpdateSpec::F16) return stages;
  const bool on_device = spec.compute().device() == v1::ComputeSpec::CUDA;
  const double published[] = {16, 4 + 12 / N, 2 + 14 / N, 16 / N};
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    zero.set_stage(stage);
    const MemoryPlan memory = PlanMemory(spec, plan.data, plan.processors);
    StagePlan one;
    one.stage = stage;
    one.worker_bytes = memory.worker_own_bytes();
    one.device_bytes = memory.device_bytes();
    one.state_bytes = on_device ? memory.device_state_bytes() : memory.worker_state_bytes();
    one.state_bytes_per_parameter =
        static_cast<double>(one.state_bytes) / static_cast<double>(memory.parameters);
    one.published_bytes_per_parameter = published[stage];
    stages.push_back(one);
  }
  return stages;
}

}  // namespace

absl::StatusOr<JobPlan> PlanJob(const v1::JobSpec& spec, const DataSize& data,
                                const WorkerProcessors& processors) {
  MUSTER_RETURN_IF_ERROR(ValidateJob(spec));
  if (RunsProgram(spec)) {
    return absl::FailedPreconditionError(
        "the job runs a program (model.program), whose steps only the program knows: there is "
        "nothing to predict; each of its processes may take model.program.memory_bytes");
  }
  JobPlan plan;
  plan.spec = spec;
  FillDefaults(plan.spec);
  plan.data = data;
  plan.processors = processors;
  plan.model = SizeOfModel(plan.spec, data);
  MUSTER_RETURN_IF_ERROR(ValidateLayout(plan.spec, plan.model));
  plan.memory = PlanMemory(plan.spec, data, processors);
  MUSTER_ASSIGN_OR_RETURN(const ModelDivision division, PlannedDivision(plan.spec, plan.model));
  if (division.stages() > 1) {
    const std::vector<MemoryPlan> stages = PlanMemoryOfStages(plan.spec, data, processors);
    for (int stage = 0; stage < division.stages(); ++stage) {
      plan.pipeline.push_back(
          {SizeOfRank(plan.spec, plan.model, division, stage).chunks, stages[stage]});
    }
  }
  plan.recompute = CompareRecompute(plan);
  plan.costs = CostsOfStep(plan.spec, plan.model, data.document_tokens);
  plan.stages = CompareStages(plan);

  const v1::TablesSchema schema = PlannedSchema(plan.spec, plan.model);
  const v1::JobSpec on_servers = OnServers(plan.spec);
  if (RanksTogether(plan.spec) == 1 || ValidateJob(on_servers).ok()) {
    MUSTER_ASSIGN_OR_RETURN(RoadTraffic servers, ServerTraffic(on_servers, schema));
    AddRows(plan, servers);
    plan.traffic.push_back(servers);
  }
  MUSTER_ASSIGN_OR_RETURN(RoadTraffic all_reduce, AllReduceTraffic(plan, schema));
  AddRows(plan, all_reduce);
  plan.traffic.push_back(all_reduce);
  return plan;
}

}  // namespace muster
