#ifndef MUSTER_CLIENT_PLAN_EFFECTIVE_JOB_H_
#define MUSTER_CLIENT_PLAN_EFFECTIVE_JOB_H_

#include "client/plan/job_plan.h"

namespace muster {

// The job of a plan with the values written in that its left-out fields stand for: those that the
// coordinator fills in (FillDefaults), a transformer's, and its optimizer's options.
v1::JobSpec EffectiveJob(const JobPlan& plan);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_EFFECTIVE_JOB_H_
