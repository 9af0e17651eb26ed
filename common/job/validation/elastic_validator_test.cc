#include "common/job/validation/elastic_validator.h"

#include <vector>

#include "common/job/test_jobs.h"
#include "common/job/validation/bad_job_for_testing.h"
#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ElasticValidatorTest, JobsOnServersMayGrowAndShrink) {
  v1::JobSpec spec = SmallJob();
  spec.set_min_workers(1);
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
  spec.set_max_workers(4);
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
  FillDefaults(spec);
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
}

TEST(ElasticValidatorTest, WhatCannotChangeMembersOnServersIsRefusedByName) {
  const std::vector<BadJob> jobs = {
      BadJob{"BoundedStaleness",
             [](v1::JobSpec& s) {
               s.set_min_workers(1);
               s.mutable_update()->set_staleness_bound(2);
             },
             AllOf(HasSubstr("min_workers is 1"), HasSubstr("staleness_bound 0"))},
      BadJob{"Asynchronous",
             [](v1::JobSpec& s) {
               s.set_min_workers(1);
               s.mutable_update()->set_unlimited_staleness(true);
             },
             AllOf(HasSubstr("min_workers is 1"), HasSubstr("staleness_bound 0"))},
      BadJob{"HalvesOnTheWire",
             [](v1::JobSpec& s) {
               s.set_min_workers(1);
               s.mutable_update()->set_wire(v1::UpdateSpec::BF16);
             },
             AllOf(HasSubstr("min_workers is 1"), HasSubstr("take F32"))},
      BadJob{"ScaledGradients",
             [](v1::JobSpec& s) {
               OnDevices(s, v1::UpdateSpec::PARAMETER_SERVER);
               s.set_min_workers(1);
               s.mutable_compute()->set_type(v1::ComputeSpec::F16);
             },
             AllOf(HasSubstr("min_workers is 1"), HasSubstr("loss scale"))},
      BadJob{"ScaledBatch",
             [](v1::JobSpec& s) {
               s.set_min_workers(1);
               s.set_scale_batch(true);
             },
             AllOf(HasSubstr("min_workers is 1"), HasSubstr("scale_batch"))},
      BadJob{"BackupWorkers",
             [](v1::JobSpec& s) {
               s.set_min_workers(1);
               s.mutable_update()->set_backup_workers(1);
             },
             HasSubstr("min_workers")},
      BadJob{"MoreThanWorkers", [](v1::JobSpec& s) { s.set_min_workers(3); },
             HasSubstr("min_workers is 3; it must be at most workers, which is 2")},
  };
  for (const BadJob& bad : jobs) {
    SCOPED_TRACE(bad.name);
    ExpectRefused(bad);
  }
}

}  // namespace
}  // namespace muster
