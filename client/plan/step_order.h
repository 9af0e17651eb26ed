#ifndef MUSTER_CLIENT_PLAN_STEP_ORDER_H_
#define MUSTER_CLIENT_PLAN_STEP_ORDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/plan/job_plan.h"

namespace muster {

// One action of a training step, described for people.
struct OrderedAction {
  // The action's name (common/step/action.h), such as "forward", or of a part of the step's end.
  std::string action;
  // The stage of the job's pipeline; -1: it has none.
  int stage = -1;
  // The unit that it works on; -1: the whole step, or no unit.
  int micro_batch = -1;
  int unit = -1;
  // The calls that the action starts, in order, such as "gather 1" of a unit, "scatter 1",
  // "all-reduce bucket 0" or "to stage 1".
  std::vector<std::string> starts;
};

// Returns the actions of a worker's training step in the step executor's order
// (common/step/step_plan.h), each with the calls that it starts (common/plan/calls/job_calls.h),
// and the end of the step in its parts: one stage of a pipeline after the other. InvalidArgument:
// the job's tensors cannot be laid out, or the step has too many actions to read.
absl::StatusOr<std::vector<OrderedAction>> OrderOfStep(const JobPlan& plan);

// Return a table for people and an array for programs.
std::string OrderText(const JobPlan& plan, const std::vector<OrderedAction>& order);
std::string OrderJson(const std::vector<OrderedAction>& order);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_STEP_ORDER_H_
