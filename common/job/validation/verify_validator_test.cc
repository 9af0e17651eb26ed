#include "common/job/validation/verify_validator.h"

#include <vector>

#include "common/job/validation/bad_job_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(VerifyValidatorTest, WhatCannotBeComparedIsRefusedByName) {
  const std::vector<BadJob> jobs = {
      BadJob{"OneDataRank", [](v1::JobSpec& s) { s.set_workers(1); },
             AllOf(HasSubstr("verify_every is 3"), HasSubstr("one data rank"))},
      BadJob{"OnlyEvaluates",
             [](v1::JobSpec& s) {
               s.mutable_stop()->Clear();
               s.mutable_stop()->set_evaluate_only(true);
               s.set_initial_weights("job-1");
             },
             HasSubstr("only evaluates")},
      BadJob{"Stale", [](v1::JobSpec& s) { s.mutable_update()->set_staleness_bound(1); },
             AllOf(HasSubstr("verify_every is 3"), HasSubstr("update.staleness_bound: 0"))},
      BadJob{"BackupWorkers", [](v1::JobSpec& s) { s.mutable_update()->set_backup_workers(1); },
             HasSubstr("update.backup_workers")},
      BadJob{"UnitsInFlightOnServers",
             [](v1::JobSpec& s) { s.mutable_parallelism()->mutable_zero()->set_stage(3); },
             AllOf(HasSubstr("parallelism.zero.stage 3"), HasSubstr("ALL_REDUCE"))},
  };
  for (BadJob bad : jobs) {
    SCOPED_TRACE(bad.name);
    bad.spoil = [spoil = bad.spoil](v1::JobSpec& spec) {
      spec.set_verify_every(3);
      spoil(spec);
    };
    v1::JobSpec spec = SmallJob();
    bad.spoil(spec);
    const absl::Status status = ValidateVerification(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), bad.message);
  }
}

TEST(VerifyValidatorTest, RefusesProgramsDevicesAndExpertRanks) {
  v1::JobSpec program = ProgramJob();
  program.set_verify_every(1);
  EXPECT_THAT(std::string(ValidateVerification(program).message()), HasSubstr("runs a program"));
  v1::JobSpec device = SmallJob();
  device.set_verify_every(1);
  device.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  EXPECT_THAT(std::string(ValidateVerification(device).message()), HasSubstr("CUDA"));
  v1::JobSpec experts = AllReduceJob();
  experts.set_verify_every(1);
  experts.mutable_parallelism()->set_expert(2);
  EXPECT_THAT(std::string(ValidateVerification(experts).message()),
              HasSubstr("parallelism.expert"));
}

TEST(VerifyValidatorTest, BothRoadsAreFine) {
  for (v1::JobSpec spec : {SmallJob(), AllReduceJob(), HybridJob()}) {
    spec.set_verify_every(3);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  }
  v1::JobSpec divided = AllReduceJob();
  divided.set_verify_every(3);
  divided.mutable_parallelism()->mutable_zero()->set_stage(3);
  EXPECT_EQ(ValidateJob(divided), absl::OkStatus());
}

}  // namespace
}  // namespace muster
