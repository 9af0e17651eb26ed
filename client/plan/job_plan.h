#ifndef MUSTER_CLIENT_PLAN_JOB_PLAN_H_
#define MUSTER_CLIENT_PLAN_JOB_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/calls/step_traffic.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/passes/step_costs.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/model_size.h"
#include "proto/job.pb.h"

namespace muster {

// A worker's memory under one kind of recomputation.
struct RecomputePlan {
  v1::ComputeSpec::Recompute recompute = v1::ComputeSpec::NONE;
  // Part of the device's memory, or else the worker's, that depends on the kind.
  uint64_t activation_bytes = 0;
  uint64_t worker_bytes = 0;
  // 0 if the job computes on no device.
  uint64_t device_bytes = 0;
};

// A worker's memory under one ZeRO stage of the all-reduce road.
struct StagePlan {
  uint32_t stage = 0;
  // The worker's own memory (MemoryPlan::worker_own_bytes), and its device's.
  uint64_t worker_bytes = 0;
  uint64_t device_bytes = 0;
  // The part for weights, gradients and optimizer state, without units in flight: of the device, if
  // there is one.
  uint64_t state_bytes = 0;
  double state_bytes_per_parameter = 0;
  // The figure published for Adam with gradients in 16 bits (Rajbhandari et al., 2020, figure 1).
  double published_bytes_per_parameter = 0;
};

// Payload of one step of one worker on one road.
struct RoadTraffic {
  bool all_reduce = false;
  // Dense gradients and parameters, and activations within layers and between stages: exact, the
  // mean over workers. All-reduce is planned as on one machine, through shared memory; over TCP
  // small buckets may be sent otherwise.
  double sent = 0;
  double received = 0;
  // The same by stage of the job's pipeline, of which there is one without, and by axis of the
  // mesh.
  std::vector<AxisTraffic> stages;
  // Expected bytes of rows of sparse tables.
  double rows_sent = 0;
  double rows_received = 0;
};

// A worker of one stage of the job's pipeline.
struct PipelineStagePlan {
  // The units of each of its chunks.
  std::vector<UnitRange> chunks;
  MemoryPlan memory;
};

// All that `muster plan` says of a job.
struct JobPlan {
  // With the coordinator's defaults (FillDefaults).
  v1::JobSpec spec;
  DataSize data;
  WorkerProcessors processors;
  ModelSize model;
  // Of a worker of the stage that needs the most.
  MemoryPlan memory;
  // Empty if the job has no pipeline.
  std::vector<PipelineStagePlan> pipeline;
  // Kinds of recomputation of a transformer; empty for other models.
  std::vector<RecomputePlan> recompute;
  StepCosts costs;
  // Stages 0 to 3; empty if the job's ranks have nothing to divide or cannot divide it.
  std::vector<StagePlan> stages;
  // Traffic by parameter servers, then by all-reduce; without a road that the job cannot take.
  std::vector<RoadTraffic> traffic;
};

// Plans a job; quick for jobs of any size. InvalidArgument: submit would refuse the job with the
// same message (common/job/validation/job_validator.h, common/plan/size/layout_validator.h).
absl::StatusOr<JobPlan> PlanJob(const v1::JobSpec& spec, const DataSize& data,
                                const WorkerProcessors& processors);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_JOB_PLAN_H_
