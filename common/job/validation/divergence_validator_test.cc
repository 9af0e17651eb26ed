#include "common/job/validation/divergence_validator.h"

#include <vector>

#include "common/job/validation/bad_job_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::DivergenceSpec& Of(v1::JobSpec& spec) {
  spec.mutable_divergence()->set_max_returns(3);
  return *spec.mutable_divergence();
}

TEST(DivergenceValidatorTest, WhatWouldNotHelpIsRefusedByName) {
  const std::vector<BadJob> jobs = {
      BadJob{"NoReturns", [](v1::JobSpec& s) { s.mutable_divergence()->set_jump(2); },
             HasSubstr("divergence.max_returns is 0")},
      BadJob{"JumpDown", [](v1::JobSpec& s) { Of(s).set_jump(0.5); },
             AllOf(HasSubstr("divergence.jump is 0.5"), HasSubstr("above 1"))},
      BadJob{"JumpOfNoNumber", [](v1::JobSpec& s) { Of(s).set_jump(kNan); },
             HasSubstr("divergence.jump is nan")},
      BadJob{"HigherRate", [](v1::JobSpec& s) { Of(s).set_rate_factor(1.5f); },
             HasSubstr("divergence.rate_factor is 1.5")},
      BadJob{"NegativeRate", [](v1::JobSpec& s) { Of(s).set_rate_factor(-1); },
             HasSubstr("divergence.rate_factor is -1")},
      BadJob{"TheSameAgain", [](v1::JobSpec& s) { Of(s).set_rate_factor(1); },
             AllOf(HasSubstr("divergence.rate_factor is 1"), HasSubstr("skip_examples"))},
  };
  for (const BadJob& bad : jobs) {
    SCOPED_TRACE(bad.name);
    ExpectRefused(bad);
  }
}

TEST(DivergenceValidatorTest, ALowerRateOrOtherExamplesAreFine) {
  v1::JobSpec spec = SmallJob();
  Of(spec).set_jump(3);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  Of(spec).set_rate_factor(1);
  Of(spec).set_skip_examples(true);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

}  // namespace
}  // namespace muster
