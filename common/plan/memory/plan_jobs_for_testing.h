#ifndef MUSTER_COMMON_PLAN_MEMORY_PLAN_JOBS_FOR_TESTING_H_
#define MUSTER_COMMON_PLAN_MEMORY_PLAN_JOBS_FOR_TESTING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/size/data_size.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {

// For tests of memory plans.

inline constexpr uint64_t kMiB = 1 << 20;

// Returns the job of a text in protobuf's text format.
inline v1::JobSpec Job(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

// Returns a transformer's job by all-reduce, and what it has of parameters.
inline v1::JobSpec Gpt(const std::string& more = "") {
  return Job(absl::StrCat(
      "model { transformer { layers: 6 width: 384 heads: 6 context: 256 } } ",
      "data { sequences { path: 't' } } optimizer { name: 'adamw' learning_rate: 0.1 } ",
      "update { dense: ALL_REDUCE sparse: ALL_REDUCE } batch_size: 8 ", more));
}
// Matrices of the six blocks and the tied head, positions, and what is in vectors.
inline constexpr uint64_t kGptMatrices = 6 * 12 * 384 * 384 + 256 * 384;
inline constexpr uint64_t kGpt = kGptMatrices + 256 * 384 + 6 * (9 + 4) * 384 + 2 * 384;

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

#endif  // MUSTER_COMMON_PLAN_MEMORY_PLAN_JOBS_FOR_TESTING_H_
