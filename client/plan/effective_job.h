#ifndef MUSTER_CLIENT_PLAN_EFFECTIVE_JOB_H_
#define MUSTER_CLIENT_PLAN_EFFECTIVE_JOB_H_

#include "client/plan/job_plan.h"

namespace muster {

// Returns the plan's job with a value in every field: beside JobPlan::spec's, the defaults of a
// transformer and of its optimizer's options.
v1::JobSpec EffectiveJob(const JobPlan& plan);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_EFFECTIVE_JOB_H_
