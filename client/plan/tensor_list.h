#ifndef MUSTER_CLIENT_PLAN_TENSOR_LIST_H_
#define MUSTER_CLIENT_PLAN_TENSOR_LIST_H_

#include <string>

#include "client/plan/job_plan.h"

namespace muster {

// Returns a table of the model's dense tensors for people: name, shape, layer unit, and how each is
// trained. The names are those that optimizer.groups takes.
std::string TensorsText(const JobPlan& plan);

// Returns the same as a JSON array for programs.
std::string TensorsJson(const JobPlan& plan);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_TENSOR_LIST_H_
