#include "client/plan/step_order.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/plan/plan_output.h"
#include "client/terminal/format.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/calls/job_calls.h"
#include "common/plan/calls/step_calls.h"
#include "common/plan/ranks/rank_size.h"
#include "common/step/action.h"
#include "common/step/shares.h"
#include "common/step/stage_shape.h"
#include "common/step/stage_spec.h"
#include "common/text/dump_json.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

constexpr size_t kMostActions = 1000;

// Returns the calls as text; of more than three, only the first and the last.
std::string Shown(const std::vector<std::string>& starts) {
  if (starts.size() <= 3) return absl::StrJoin(starts, ", ");
  return absl::StrCat(starts.front(), ", …, ", starts.back());
}

// Returns the name of the unit's largest tensor, without its last part: "embedding", "block0".
std::string UnitName(const ModelSize& model, int unit) {
  const TensorSpec* largest = nullptr;
  for (const TensorSpec& tensor : model.tensors) {
    if (static_cast<int>(tensor.unit) != unit) continue;
    if (largest == nullptr || tensor.elements() > largest->elements()) largest = &tensor;
  }
  return largest == nullptr ? "" : largest->name.substr(0, largest->name.find('.'));
}

// Returns the recorded action for people.
OrderedAction Described(const RecordedStep& step, const RecordedAction& action) {
  const bool of_step =
      action.action.kind == ActionKind::kBeginStep || action.action.kind == ActionKind::kEndStep;
  const absl::string_view name = action.part.empty() ? NameOf(action.action.kind) : action.part;
  OrderedAction described = {.action = std::string(name),
                             .micro_batch = of_step ? -1 : action.action.micro_batch,
                             .unit = action.action.unit};
  for (const StepCall& call : step.CallsOf(action)) {
    if (!call.continues) described.starts.push_back(TextOf(call));
  }
  return described;
}

}  // namespace

absl::StatusOr<std::vector<OrderedAction>> OrderOfStep(const JobPlan& plan) {
  const v1::JobSpec& spec = plan.spec;
  const StageShape shape = ShapeOfStages(spec);
  MUSTER_ASSIGN_OR_RETURN(
      const JobCalls job,
      JobCalls::Create(PlannedSchema(spec, plan.model), spec,
                       TrainsByAllReduce(spec) ? CallRoad::kAllReduce : CallRoad::kServers));
  const BatchDivision batch = {.batch_size = LargestBatch(spec),
                               .data_ranks = SizeAlong(kDataAxes, spec),
                               .job_data_ranks = SizeAlong(kDataAxes, spec),
                               .micro_batches = shape.micro_batches};
  StepToRecord step = {.shard = 0};
  for (int i = 0; i < shape.micro_batches; ++i) {
    step.examples.push_back(batch.MicroBatch(/*data_rank=*/0, i).size());
  }
  std::vector<OrderedAction> order;
  for (int stage = 0; stage < shape.stages; ++stage) {
    const int rank = job.division().mesh.Move(0, Axis::kPipeline, stage);
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<RankCalls> calls, RankCalls::Create(job, rank));
    const RecordedStep recorded = calls->Record(step);
    for (const RecordedAction& action : recorded.actions) {
      order.push_back(Described(recorded, action));
      if (shape.stages > 1) order.back().stage = stage;
    }
  }
  const size_t count = std::count_if(order.begin(), order.end(), [](const OrderedAction& action) {
    return action.micro_batch >= 0;
  });
  if (count > kMostActions) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of this job has ", count, " actions, more than ", kMostActions,
                     "; show the order of a job with fewer layers or micro-batches"));
  }
  return order;
}

std::string OrderText(const JobPlan& plan, const std::vector<OrderedAction>& order) {
  std::string text = absl::StrCat(PlanSummary(plan), "\n");
  for (auto action = order.begin(); action != order.end();) {
    const int stage = action->stage;
    std::vector<std::vector<std::string>> rows = {{"micro-batch", "action", "unit", "starts"}};
    for (; action != order.end() && action->stage == stage; ++action) {
      rows.push_back(
          {action->micro_batch < 0 ? "-" : absl::StrCat(action->micro_batch), action->action,
           action->unit < 0 ? ""
                            : absl::StrCat(action->unit, " ", UnitName(plan.model, action->unit)),
           Shown(action->starts)});
    }
    absl::StrAppend(&text, "\nOne step of each worker",
                    stage < 0 ? "" : absl::StrCat(" of stage ", stage), "\n", FormatTable(rows));
  }
  return text;
}

std::string OrderJson(const std::vector<OrderedAction>& order) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const OrderedAction& action : order) {
    nlohmann::ordered_json one = {{"action", action.action}};
    if (action.stage >= 0) one["stage"] = action.stage;
    if (action.micro_batch >= 0) one["micro_batch"] = action.micro_batch;
    if (action.unit >= 0) one["unit"] = action.unit;
    one["starts"] = action.starts;
    json.push_back(std::move(one));
  }
  return DumpJson(json, 2);
}

}  // namespace muster
