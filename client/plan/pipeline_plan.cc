#include "client/plan/pipeline_plan.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/job_validator.h"
#include "common/plan/calls/step_traffic.h"
#include "common/plan/passes/unit_costs.h"
#include "common/plan/ranks/rank_size.h"
#include "common/plan/size/model_size.h"
#include "common/step/divide_units.h"
#include "common/step/stage_spec.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

constexpr uint64_t kMostPasses = 100'000;

// Returns the job with its defaults. Errors are those of PlanPipeline.
absl::StatusOr<v1::JobSpec> CheckJob(const v1::JobSpec& given) {
  if (given.parallelism().pipeline() <= 1) {
    return absl::InvalidArgumentError(
        "parallelism.pipeline is 1, so the job has no pipeline to show; set the number of stages, "
        "as in --set parallelism.pipeline=2 --set workers=2 --set micro_batches=8");
  }
  MUSTER_RETURN_IF_ERROR(ValidateJob(given));
  v1::JobSpec spec = given;
  FillDefaults(spec);
  const StageShape shape = ShapeOfStages(spec);
  const uint64_t passes =
      3 * uint64_t{spec.micro_batches()} * static_cast<uint64_t>(shape.virtual_stages());
  if (passes > kMostPasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of this job has ", passes, " passes, more than ", kMostPasses,
                     "; show the pipeline of a job with fewer stages or micro-batches"));
  }
  return spec;
}

}  // namespace

double PipelinePlan::bubble() const {
  double busy = 0;
  for (const PlannedStage& stage : stages) busy += stage.busy;
  return static_cast<double>(stages.size()) / busy - 1;
}

double PipelinePlan::uniform_bubble() const {
  const StepTimeline uniform =
      TimelineOf(shape, std::vector<VirtualStageTimes>(shape.virtual_stages()), /*transfer=*/0);
  return uniform.length() / uniform.busy(0) - 1;
}

absl::StatusOr<PipelinePlan> PlanPipeline(const v1::JobSpec& given, const DataSize& data) {
  MUSTER_ASSIGN_OR_RETURN(const v1::JobSpec spec, CheckJob(given));
  const ModelSize model = SizeOfModel(spec, data);
  const std::vector<UnitCost> units = CostsOfUnits(spec, model);
  MUSTER_ASSIGN_OR_RETURN(const ModelDivision division, PlannedDivision(spec, model));
  const std::vector<int>& sizes = division.virtual_stage_units;
  PipelinePlan plan;
  plan.job = spec.name().empty() ? "the job" : spec.name();
  plan.shape = ShapeOfStages(spec);
  plan.timeline = TimelineOf(plan.shape, OperationsOfVirtualStages(units, sizes), /*transfer=*/0);
  plan.stages.resize(plan.shape.stages);
  const std::vector<std::vector<StepAction>> schedule = StageSchedules(plan.shape);
  MUSTER_ASSIGN_OR_RETURN(
      const std::vector<AxisTraffic> traffic,
      PredictMeanTraffic(PlannedSchema(spec, model), spec,
                         TrainsByAllReduce(spec) ? CallRoad::kAllReduce : CallRoad::kServers,
                         AllReduceWay::kSharedMemory));
  for (int s = 0; s < plan.shape.stages; ++s) {
    PlannedStage& stage = plan.stages[s];
    stage.operations = plan.timeline.busy(s);
    stage.busy = stage.operations / plan.timeline.length();
    stage.holdings = HoldingsOf(schedule[s]);
    stage.sent_bytes = static_cast<uint64_t>(traffic[s].pipeline.sent);
  }
  int unit = 0;
  for (int virtual_stage = 0; virtual_stage < plan.shape.virtual_stages(); ++virtual_stage) {
    PlannedStage& stage = plan.stages[virtual_stage % plan.shape.stages];
    stage.layers.push_back(sizes[virtual_stage]);
    for (const int end = unit + sizes[virtual_stage]; unit < end; ++unit) {
      stage.state_bytes += units[unit].state_bytes;
      stage.activation_bytes +=
          units[unit].activation_bytes * stage.holdings.saved / plan.shape.chunks;
    }
  }
  return plan;
}

}  // namespace muster
