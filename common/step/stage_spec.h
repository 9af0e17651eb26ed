#ifndef MUSTER_COMMON_STEP_STAGE_SPEC_H_
#define MUSTER_COMMON_STEP_STAGE_SPEC_H_

#include "common/step/stage_shape.h"
#include "common/step/step_plan.h"

namespace muster {

namespace v1 {
class JobSpec;
class TablesSchema;
}  // namespace v1

// Returns the shape of the job's steps, defaults filled in: one stage if it has no pipeline. Valid
// if the job is (common/job/validation/pipeline_validator.h).
StageShape ShapeOfStages(const v1::JobSpec& spec);

// Returns a stage of the job's steps, whose model has so many units. The job's schema says which
// layers each stage of a pipeline has.
ModelStage StageOfJob(const v1::JobSpec& spec, const v1::TablesSchema& schema, int units,
                      int stage);

// Returns what the plan of a job's steps depends on, beside its stage; a model on a device has its
// passes there.
StepTraits TraitsOfJob(const v1::JobSpec& spec, bool has_rows, bool on_device);

// Returns the order's name in job files, such as "ONE_F_ONE_B".
const char* Name(StageOrder order);

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_STAGE_SPEC_H_
