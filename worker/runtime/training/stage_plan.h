#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STAGE_PLAN_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STAGE_PLAN_H_

#include <vector>

#include "absl/types/optional.h"
#include "common/pipeline/pipeline_action.h"
#include "worker/nn/model.h"
#include "worker/runtime/training/step_plan.h"

namespace muster {

namespace v1 {
class JobSpec;
class TablesSchema;
}  // namespace v1

// One stage of a pipeline, and what each group of layers has.
struct PipelineStage {
  PipelineShape shape;
  int stage = 0;
  // Number of units by group; together all units of the model.
  std::vector<int> sizes;

  // Returns the first unit of a group; of shape.groups(), the number of all units.
  int FirstUnit(int group) const;
  // Returns the units from the first of one chunk of the stage to the last of another.
  UnitRange UnitsOf(int first_chunk, int last_chunk) const;
};

// Returns a stage of the job's pipeline, whose layers the job's schema says; absent: there is one
// stage.
absl::optional<PipelineStage> StageOfJob(const v1::JobSpec& spec, const v1::TablesSchema& schema,
                                         int stage);

// Returns the actions of one training step of a stage: TrainingStepPlan of its units alone, in the
// order of common/pipeline/pipeline_schedule.h, with the sends and receives between the stages. A
// micro-batch of a chunk has a saved set from its forward to the end of its backward; the sets are
// as many as StageHoldings says. kLastUnit runs at the beginning of the last group's backward, and
// so does not keep logits between the two. kBeginBackward comes before a micro-batch's first
// backward on the stage. Where backward passes of micro-batches overlap (kInterleaved,
// kZeroBubble), kGradientReady is left out of micro-batches whose gradients stay. Pure functions,
// here and below. On a device kCheckLoss comes once, after the step. REQUIRES: `shape` has the
// model's units, and no rows; of a shape with split_backward the stage's order is kZeroBubble, and
// of others it is not.
std::vector<StepAction> StageStepPlan(const StepShape& shape, const PipelineStage& stage);

// Returns the actions of one forward pass of a stage over a batch that is loaded. The stage with
// the last unit has the results.
std::vector<StepAction> StageEvaluationPlan(const PipelineStage& stage);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STAGE_PLAN_H_
