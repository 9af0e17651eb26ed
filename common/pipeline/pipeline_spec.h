#ifndef MUSTER_COMMON_PIPELINE_PIPELINE_SPEC_H_
#define MUSTER_COMMON_PIPELINE_PIPELINE_SPEC_H_

#include "common/pipeline/pipeline_action.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Returns the shape of the job's pipeline, defaults filled in: one stage if it has none. Valid if
// the job is (common/job/pipeline_validator.h).
PipelineShape ShapeOfPipeline(const v1::JobSpec& spec);

// Returns the order's name in job files, such as "ONE_F_ONE_B".
const char* Name(PipelineOrder order);

}  // namespace muster

#endif  // MUSTER_COMMON_PIPELINE_PIPELINE_SPEC_H_
