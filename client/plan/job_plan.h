#ifndef MUSTER_CLIENT_PLAN_JOB_PLAN_H_
#define MUSTER_CLIENT_PLAN_JOB_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/data_size.h"
#include "common/plan/memory_plan.h"
#include "common/plan/model_size.h"
#include "common/plan/step_costs.h"
#include "proto/job.pb.h"

namespace muster {

// A worker's memory under one kind of recomputation.
struct RecomputePlan {
  v1::ComputeSpec::Recompute recompute = v1::ComputeSpec::NONE;
  // Of the device's, or else the worker's, what depends on it.
  uint64_t activation_bytes = 0;
  uint64_t worker_bytes = 0;
  // 0 where the job computes on no device.
  uint64_t device_bytes = 0;
};

// Payload of one step of one worker on one road.
struct RoadTraffic {
  bool all_reduce = false;
  // Dense gradients and parameters, exact; the mean over workers. By all-reduce as on one machine,
  // through shared memory: over TCP small buckets may take another way.
  double sent = 0;
  double received = 0;
  // Rows of sparse tables, as many as are expected.
  double rows_sent = 0;
  double rows_received = 0;
};

// All that `muster plan` tells of a job.
struct JobPlan {
  v1::JobSpec spec;
  DataSize data;
  WorkerProcessors processors;
  ModelSize model;
  MemoryPlan memory;
  // Of a transformer; empty for other models.
  std::vector<RecomputePlan> recompute;
  StepCosts costs;
  std::vector<ZeroRow> zero;
  // By parameter servers, then by all-reduce.
  std::vector<RoadTraffic> traffic;
};

// Takes a moment, however large the job is. InvalidArgument: submit would refuse it in the same
// words (common/job/job_validator.h, common/plan/layout_validator.h).
absl::StatusOr<JobPlan> PlanJob(const v1::JobSpec& spec, const DataSize& data,
                                const WorkerProcessors& processors);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_JOB_PLAN_H_
