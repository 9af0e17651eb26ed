#ifndef MUSTER_CLIENT_PLAN_STEP_ORDER_H_
#define MUSTER_CLIENT_PLAN_STEP_ORDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/plan/job_plan.h"

namespace muster {

// One action of a training step, for people.
struct OrderedAction {
  // Such as "forward".
  std::string action;
  // -1: the action is of the whole step, or of no unit.
  int micro_batch = -1;
  int unit = -1;
  // The calls that it starts, in order, such as "gather 1" of a unit, "scatter 1" or "all-reduce
  // bucket 0".
  std::vector<std::string> starts;
};

// Returns the actions of one training step of each worker, in order: those that the step executor
// executes (worker/runtime/training/step_plan.h), each with the exchanges that the job's ZeRO stage
// starts there, and the end of the step in its parts. InvalidArgument: the job's tensors cannot be
// laid out, or the step has more actions than anybody reads.
absl::StatusOr<std::vector<OrderedAction>> OrderOfStep(const JobPlan& plan);

// Returns a table for people, and an array for programs.
std::string OrderText(const JobPlan& plan, const std::vector<OrderedAction>& order);
std::string OrderJson(const std::vector<OrderedAction>& order);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_STEP_ORDER_H_
