#ifndef MUSTER_CLIENT_PLAN_JOB_PLANS_FOR_TESTING_H_
#define MUSTER_CLIENT_PLAN_JOB_PLANS_FOR_TESTING_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/plan/job_plan.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/size/data_size.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {

// For tests of plans of jobs.

// Returns the job of a text in protobuf's text format, of ten steps.
inline v1::JobSpec Job(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  spec.mutable_stop()->set_steps(10);
  return spec;
}

// Returns a small transformer's job on servers, or by all-reduce.
inline v1::JobSpec Gpt(const std::string& more = "") {
  return Job(
      absl::StrCat("name: 'g' model { transformer { layers: 2 width: 64 heads: 2 context: 32",
                   " } } data { sequences { path: 't' tokenizer: 'bytes' } } ",
                   "optimizer { name: 'adamw' learning_rate: 0.1 } batch_size: 8 ", more));
}

inline v1::JobSpec ByAllReduce(const std::string& more) {
  return Gpt(absl::StrCat("update { dense: ALL_REDUCE sparse: ALL_REDUCE } ", more));
}

inline absl::StatusOr<JobPlan> PlanOf(const v1::JobSpec& spec,
                                      const WorkerProcessors& processors = {}) {
  return PlanJob(spec, SizeOfData(spec.data()), processors);
}

// Returns the part of a job's text that sets the stage of ZeRO.
inline std::string Stage(int stage) {
  return absl::StrCat("parallelism { zero { stage: ", stage, " } } ");
}

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_JOB_PLANS_FOR_TESTING_H_
