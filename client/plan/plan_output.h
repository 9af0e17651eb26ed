#ifndef MUSTER_CLIENT_PLAN_PLAN_OUTPUT_H_
#define MUSTER_CLIENT_PLAN_PLAN_OUTPUT_H_

#include <string>

#include "client/plan/job_plan.h"

namespace muster {

// Returns the job in a line: its name, model, workers and road, as in "digits: mlp, 203,530 dense
// parameters; 2 workers, by parameter servers" or "…, by all-reduce, zero stage 3 over 2 ranks".
std::string PlanSummary(const JobPlan& plan);

// Returns tables for people.
std::string PlanText(const JobPlan& plan);

// Returns one JSON object for programs; bytes and operations are plain numbers.
std::string PlanJson(const JobPlan& plan);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_PLAN_OUTPUT_H_
