#ifndef MUSTER_COMMON_PLAN_PLANNED_STAGES_H_
#define MUSTER_COMMON_PLAN_PLANNED_STAGES_H_

#include <cstdint>

#include "common/partition/local_tensors.h"
#include "common/pipeline/pipeline_action.h"
#include "common/plan/data_size.h"
#include "common/plan/model_size.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Messages that a stage sends at a time (worker/runtime/training/pipeline_links.h).
inline constexpr uint64_t kStageMessagesSent = 2;

// The stages of a job, of which a job without a pipeline has one, and what they send one another.
struct PlannedStages {
  PipelineShape shape;
  ModelDivision division;
  // The most bytes of a message, and the number of messages that a stage has memory for.
  uint64_t message_bytes = 0;
  uint64_t messages = 0;
};

// Returns the stages of a valid job.
PlannedStages PlanStages(const v1::JobSpec& spec, const DataSize& data, const ModelSize& model);

// Returns the number of examples that the evaluator takes at once
// (worker/runtime/training/evaluator.cc), or all that a data rank has; 0: nothing is evaluated.
uint64_t EvaluatedExamples(const v1::JobSpec& spec, const DataSize& data, const ModelSize& model);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_PLANNED_STAGES_H_
