#ifndef MUSTER_COMMON_PLAN_PLAN_JOBS_H_
#define MUSTER_COMMON_PLAN_PLAN_JOBS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/plan/data_size.h"
#include "common/plan/memory_plan.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {

// For tests of memory plans.

// Returns the job of a text in protobuf's text format.
inline v1::JobSpec Job(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

inline MemoryPlan PlanOf(const v1::JobSpec& spec) {
  return PlanMemory(spec, SizeOfData(spec.data()));
}

// Returns the bytes of the parts of each name.
inline std::map<std::string, uint64_t> ByName(const std::vector<MemoryPart>& parts) {
  std::map<std::string, uint64_t> bytes;
  for (const MemoryPart& part : parts) bytes[part.name] += part.bytes;
  return bytes;
}

// Returns the parts of one worker.
inline std::map<std::string, uint64_t> WorkerOf(const v1::JobSpec& spec) {
  return ByName(PlanOf(spec).worker);
}

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_PLAN_JOBS_H_
