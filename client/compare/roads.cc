#include "client/compare/roads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/job_road.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/step/stage_spec.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

v1::ParallelismSpec::PipelineSchedule ScheduleOf(StageOrder order) {
  v1::ParallelismSpec::PipelineSchedule schedule = {};
  v1::ParallelismSpec::PipelineSchedule_Parse(Name(order), &schedule);
  return schedule;
}

// Replaces the job's pipeline schedule.
void SetOrder(StageOrder order, v1::JobSpec& spec) {
  v1::ParallelismSpec& parallelism = *spec.mutable_parallelism();
  parallelism.set_pipeline_schedule(ScheduleOf(order));
  if (order != StageOrder::kInterleaved) parallelism.clear_pipeline_chunks();
  if (order == StageOrder::kLayerWise) spec.clear_micro_batches();
  // A list is one of as many groups as the job's own schedule has.
  if (parallelism.pipeline_layers_size() != ShapeOfStages(spec).virtual_stages()) {
    parallelism.clear_pipeline_layers();
  }
}

void LeaveOutPipeline(v1::JobSpec& spec) {
  v1::ParallelismSpec& parallelism = *spec.mutable_parallelism();
  const uint32_t stages = parallelism.pipeline();
  spec.set_workers(spec.workers() / stages);
  spec.set_threads_per_worker(spec.threads_per_worker() * stages);
  parallelism.clear_pipeline();
  parallelism.clear_pipeline_schedule();
  parallelism.clear_pipeline_chunks();
  parallelism.clear_pipeline_layers();
}

// Leaves all workers there from start to end.
void LeaveOutElasticity(v1::JobSpec& spec) {
  spec.clear_min_workers();
  spec.clear_max_workers();
  spec.clear_scale_batch();
}

// Leaves out the roads that submit would refuse, and says why.
void LeaveOutRefused(const v1::JobSpec& job, int staleness_bound, ComparableRoads& roads) {
  std::vector<Road> accepted;
  for (const Road& road : roads.roads) {
    const absl::Status status = ValidateJob(OnRoad(job, road, staleness_bound));
    if (status.ok()) accepted.push_back(road);
    if (!status.ok()) roads.left_out.push_back(absl::StrCat(road.name, ": ", status.message()));
  }
  roads.roads = std::move(accepted);
}

}  // namespace

ComparableRoads RoadsOf(const v1::JobSpec& job, int staleness_bound) {
  ComparableRoads result;
  const std::string division = DivisionName(job);
  const Road all_reduce = {Road::Kind::kAllReduce,
                           absl::StrCat("all-reduce", division.empty() ? "" : ", ", division)};
  if (RanksTogether(job) > 1) {
    result.roads = {{Road::Kind::kBsp, "BSP"}, all_reduce};
    result.left_out.push_back(
        "SSP and ASP: workers that compute the model together must read one version of it");
    LeaveOutRefused(job, staleness_bound, result);
    return result;
  }
  result.roads.push_back({Road::Kind::kBsp, "BSP"});
  const std::string ssp = absl::StrCat("SSP ", staleness_bound);
  std::string why;
  if (job.update().deterministic()) why = "update.deterministic needs every step to wait for all";
  if (job.clipping().by_global_norm() > 0) {
    why = "clipping.by_global_norm needs the gradients of all workers at once";
  }
  if (why.empty()) {
    result.roads.push_back({Road::Kind::kSsp, ssp});
    result.roads.push_back({Road::Kind::kAsp, "ASP"});
  } else {
    result.left_out.push_back(absl::StrCat(ssp, " and ASP: ", why));
  }
  if (job.update().wire() == v1::UpdateSpec::F16) {
    result.left_out.push_back(
        "all-reduce: update.wire is F16, and sums of workers' gradients may exceed its range; BF16 "
        "works on all roads");
  } else {
    result.roads.push_back(all_reduce);
  }
  return result;
}

ComparableRoads StagesOf(const v1::JobSpec& job) {
  ComparableRoads result;
  std::string why;
  if (SizeAlong(kGradientAxes, job) < 2) {
    why = "the job has one data rank, which has nothing to divide";
  }
  for (uint32_t stage = 0; stage <= (why.empty() ? 3 : 0); ++stage) {
    result.roads.push_back({.kind = Road::Kind::kAllReduce,
                            .name = absl::StrCat("stage ", stage),
                            .zero_stage = stage});
  }
  if (!why.empty()) result.left_out.push_back(absl::StrCat("stages 1 to 3: ", why));
  return result;
}

ComparableRoads SchedulesOf(const v1::JobSpec& job) {
  ComparableRoads result;
  const auto kind = TrainsByAllReduce(job) ? Road::Kind::kAllReduce : Road::Kind::kBsp;
  result.roads.push_back({.kind = kind, .name = "no pipeline", .without_pipeline = true});
  for (const StageOrder order :
       {StageOrder::kLayerWise, StageOrder::kGPipe, StageOrder::kOneForwardOneBackward,
        StageOrder::kInterleaved, StageOrder::kZeroBubble}) {
    result.roads.push_back({.kind = kind, .name = Name(order), .order = order});
  }
  LeaveOutRefused(job, /*staleness_bound=*/0, result);
  return result;
}

absl::Status KeepOnly(Road::Kind kind, ComparableRoads& roads) {
  const auto is_other = [kind](const Road& road) { return road.kind != kind; };
  roads.roads.erase(std::remove_if(roads.roads.begin(), roads.roads.end(), is_other),
                    roads.roads.end());
  if (roads.roads.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the job cannot train on the one road that is asked for",
        roads.left_out.empty() ? "" : "; left out were: ", absl::StrJoin(roads.left_out, "; ")));
  }
  roads.left_out.clear();
  return absl::OkStatus();
}

v1::JobSpec OnRoad(const v1::JobSpec& job, const Road& road, int staleness_bound) {
  v1::JobSpec spec = job;
  spec.set_name(absl::StrCat(job.name(), " (", road.name, ")"));
  // All servers of the cluster that is made for it.
  spec.clear_servers();
  v1::UpdateSpec& update = *spec.mutable_update();
  const bool all_reduce = road.kind == Road::Kind::kAllReduce;
  // A job of the other road may ask for what this one does not know.
  update.clear_first_bucket_bytes();
  update.clear_bucket_bytes();
  if (all_reduce) {
    update.set_first_bucket_bytes(job.update().first_bucket_bytes());
    update.set_bucket_bytes(job.update().bucket_bytes());
    update.clear_backup_workers();
  } else {
    LeaveOutElasticity(spec);
    // Servers already hold the state that ranks would divide.
    spec.mutable_parallelism()->clear_zero();
  }
  if (road.kind == Road::Kind::kSsp || road.kind == Road::Kind::kAsp) {
    update.clear_backup_workers();
    spec.clear_balance();
    spec.clear_share_changes();
    spec.clear_verify_every();
  }
  if (road.zero_stage.has_value()) {
    LeaveOutElasticity(spec);
    v1::ZeroSpec& zero = *spec.mutable_parallelism()->mutable_zero();
    if (*road.zero_stage == 0) zero.Clear();
    if (*road.zero_stage > 0) zero.set_stage(*road.zero_stage);
    // Stages 1 and 2 keep everything gathered.
    if (*road.zero_stage < 3) zero.clear_keep_gathered_bytes();
  }
  if (road.order.has_value()) SetOrder(*road.order, spec);
  if (road.without_pipeline) LeaveOutPipeline(spec);
  const v1::UpdateSpec::Road value =
      all_reduce ? v1::UpdateSpec::ALL_REDUCE : v1::UpdateSpec::PARAMETER_SERVER;
  update.set_dense(value);
  update.set_sparse(value);
  update.set_staleness_bound(road.kind == Road::Kind::kSsp ? staleness_bound : 0);
  update.set_unlimited_staleness(road.kind == Road::Kind::kAsp);
  // Writing between steps would be measured, too.
  update.set_durability(v1::UpdateSpec::CHECKPOINT);
  update.clear_move_hot_partitions();
  spec.mutable_checkpoint()->set_keep_best(false);
  return spec;
}

}  // namespace muster
