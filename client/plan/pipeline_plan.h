#ifndef MUSTER_CLIENT_PLAN_PIPELINE_PLAN_H_
#define MUSTER_CLIENT_PLAN_PIPELINE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/size/data_size.h"
#include "common/step/stage_schedule.h"
#include "common/step/stage_shape.h"
#include "common/step/step_timeline.h"
#include "proto/job.pb.h"

namespace muster {

// One stage of a pipeline: its layers, and its part of a step.
struct PlannedStage {
  // Number of units in each of its virtual stages.
  std::vector<int> layers;
  // Operations of a step.
  double operations = 0;
  // The part of a step in which it computes, 0 to 1.
  double busy = 0;
  StageHoldings holdings;
  // Parameters, gradients and optimizer state.
  double state_bytes = 0;
  // Activations of its layers, of as many micro-batches as it saves at a time.
  double activation_bytes = 0;
  // Bytes that its first worker sends other stages in a step.
  uint64_t sent_bytes = 0;
};

// A job's pipeline. Times are operations: a stage is taken to make as many in a second as any
// other.
struct PipelinePlan {
  std::string job;
  StageShape shape;
  StepTimeline timeline;
  std::vector<PlannedStage> stages;

  // Returns the time that a stage is idle in the mean, by the time that it computes.
  double bubble() const;
  // Returns the same of stages that all have as many operations, forward, backward of the input and
  // of weights alike.
  double uniform_bubble() const;
};

// Plans the job's pipeline. InvalidArgument: the job has no pipeline, or too many passes to show;
// or submit would refuse it.
absl::StatusOr<PipelinePlan> PlanPipeline(const v1::JobSpec& spec, const DataSize& data);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_PIPELINE_PLAN_H_
