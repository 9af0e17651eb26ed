#ifndef MUSTER_COMMON_JOB_VALIDATION_BAD_JOB_FOR_TESTING_H_
#define MUSTER_COMMON_JOB_VALIDATION_BAD_JOB_FOR_TESTING_H_

#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "common/job/test_jobs.h"
#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A job that is refused, for tests: what makes it of a good one, and what is said of it.
struct BadJob {
  const char* name;
  std::function<void(v1::JobSpec&)> spoil;
  ::testing::Matcher<std::string> message;
};

// Makes the job one of a transformer on devices, which is valid.
inline void OnDevices(v1::JobSpec& spec, v1::UpdateSpec::Road dense = v1::UpdateSpec::ALL_REDUCE) {
  spec.mutable_data()->mutable_sequences()->set_path("p");
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_layers(2);
  transformer.set_width(8);
  transformer.set_heads(2);
  transformer.set_context(4);
  transformer.set_vocabulary(16);
  spec.mutable_optimizer()->set_name("adamw");
  spec.mutable_update()->set_dense(dense);
  spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
}

// Expects that ValidateJob refuses SmallJob once it is spoilt so, by name.
inline void ExpectRefused(const BadJob& bad) {
  v1::JobSpec spec = SmallJob();
  bad.spoil(spec);
  const absl::Status status = ValidateJob(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), bad.message);
}

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_VALIDATION_BAD_JOB_FOR_TESTING_H_
