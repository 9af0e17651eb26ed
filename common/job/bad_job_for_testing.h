#ifndef MUSTER_COMMON_JOB_BAD_JOB_FOR_TESTING_H_
#define MUSTER_COMMON_JOB_BAD_JOB_FOR_TESTING_H_

#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "common/job/job_validator.h"
#include "common/job/test_jobs.h"
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

// Expects that ValidateJob refuses SmallJob once it is spoilt so, by name.
inline void ExpectRefused(const BadJob& bad) {
  v1::JobSpec spec = SmallJob();
  bad.spoil(spec);
  const absl::Status status = ValidateJob(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), bad.message);
}

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_BAD_JOB_FOR_TESTING_H_
