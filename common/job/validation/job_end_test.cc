// When a job ends, and what it is evaluated on.
#include <string>
#include <vector>

#include "common/job/test_jobs.h"
#include "common/job/validation/bad_job_for_testing.h"
#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

TEST(JobEndTest, WhatCannotEndOrBeEvaluatedIsRefusedByName) {
  const std::vector<BadJob> jobs = {
      BadJob{"TokensOfWhatHasNone",
             [](v1::JobSpec& s) {
               s.clear_stop();
               s.mutable_stop()->set_tokens(100);
             },
             AllOf(HasSubstr("stop.tokens is 100"), HasSubstr("only sequence data"))},
      BadJob{"NegativeHours",
             [](v1::JobSpec& s) {
               s.mutable_evaluation()->set_every_steps(1);
               s.mutable_stop()->set_hours(-1);
             },
             HasSubstr("stop.hours is -1")},
      BadJob{"HoursWithoutEvaluations", [](v1::JobSpec& s) { s.mutable_stop()->set_hours(1); },
             AllOf(HasSubstr("stop.hours is 1"), HasSubstr("evaluation.every_steps is 0"))},
      BadJob{"PatienceWithoutEvaluations",
             [](v1::JobSpec& s) { s.mutable_stop()->set_patience(2); },
             AllOf(HasSubstr("stop.patience is 2"), HasSubstr("evaluation.every_steps is 0"))},
      BadJob{"PlateauWithoutEvaluations",
             [](v1::JobSpec& s) { s.mutable_schedule()->mutable_plateau(); },
             AllOf(HasSubstr("schedule.plateau is set"), HasSubstr("evaluation.every_steps is 0"))},
      BadJob{"PlateauBeyondWhatIsKept",
             [](v1::JobSpec& s) {
               s.mutable_evaluation()->set_every_steps(1);
               s.mutable_schedule()->mutable_plateau()->set_patience(1000);
             },
             HasSubstr("schedule.plateau.patience is 1000")},
      BadJob{"PatienceBeyondWhatIsKept",
             [](v1::JobSpec& s) {
               s.mutable_evaluation()->set_every_steps(1);
               s.mutable_stop()->set_patience(1000);
             },
             HasSubstr("stop.patience is 1000")},
      BadJob{"ValidationBesideAHoldout", [](v1::JobSpec& s) { *s.mutable_validation() = s.data(); },
             AllOf(HasSubstr("data.holdout is 0.2"), HasSubstr("validation"))},
      BadJob{"ValidationByAnotherReader",
             [](v1::JobSpec& s) {
               s.mutable_data()->set_holdout(0);
               s.mutable_validation()->mutable_idx()->set_images("/a");
               s.mutable_validation()->mutable_idx()->set_labels("/b");
             },
             HasSubstr("validation has another reader")},
      BadJob{"ValidationWithAHoldout",
             [](v1::JobSpec& s) {
               *s.mutable_validation() = s.data();
               s.mutable_data()->set_holdout(0);
             },
             HasSubstr("validation.holdout is 0.2")},
  };
  for (const BadJob& job : jobs) {
    v1::JobSpec spec = SmallJob();
    job.spoil(spec);
    const absl::Status status = ValidateJob(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << job.name;
    EXPECT_THAT(std::string(status.message()), job.message) << job.name;
  }
}

TEST(JobEndTest, WorkersAreOneAndThreadsTheWorkersOwnByDefault) {
  v1::JobSpec spec = SmallJob();
  spec.clear_workers();
  ASSERT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
  FillDefaults(spec);
  EXPECT_EQ(spec.workers(), 1);
  EXPECT_EQ(spec.parallelism().data(), 1);
  EXPECT_EQ(spec.threads_per_worker(), 0) << "the coordinator fills it in, from the worker";
  spec.mutable_update()->set_deterministic(true);
  FillDefaults(spec);
  EXPECT_EQ(spec.threads_per_worker(), 1) << "a replacement may run elsewhere";
}

TEST(JobEndTest, ValidationDataAreEnoughToEvaluateOn) {
  v1::JobSpec spec = SmallJob();
  *spec.mutable_validation() = spec.data();
  spec.mutable_validation()->set_holdout(0);
  spec.mutable_data()->set_holdout(0);
  spec.mutable_evaluation()->set_every_steps(2);
  spec.mutable_stop()->set_patience(3);
  spec.mutable_stop()->set_hours(0.5);
  spec.mutable_stop()->set_target(0.9);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  spec.mutable_evaluation()->clear_every_steps();
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

}  // namespace
}  // namespace muster
