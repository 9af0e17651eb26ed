#include "common/job/validation/backup_workers_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/job/test_jobs.h"
#include "common/job/validation/bad_job_for_testing.h"
#include "common/job/validation/job_validator.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(BackupWorkersValidatorTest, TakesBspOnServers) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_backup_workers(1);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_clipping()->set_by_global_norm(1);
  spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

TEST(BackupWorkersValidatorTest, RefusesByNameWhereEveryExampleOrWorkerCounts) {
  const BadJob jobs[] = {
      {"all-reduce",
       [](v1::JobSpec& spec) { spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE); },
       HasSubstr("update.dense is ALL_REDUCE")},
      {"ssp", [](v1::JobSpec& spec) { spec.mutable_update()->set_staleness_bound(2); },
       HasSubstr("not BSP")},
      {"asp", [](v1::JobSpec& spec) { spec.mutable_update()->set_unlimited_staleness(true); },
       HasSubstr("not BSP")},
      {"all", [](v1::JobSpec& spec) { spec.mutable_update()->set_backup_workers(2); },
       HasSubstr("less than workers, 2")},
      {"deterministic", [](v1::JobSpec& spec) { spec.mutable_update()->set_deterministic(true); },
       HasSubstr("update.deterministic is true")},
      {"epochs",
       [](v1::JobSpec& spec) {
         spec.mutable_stop()->clear_steps();
         spec.mutable_stop()->set_epochs(2);
       },
       HasSubstr("stop.epochs")},
      {"adaptive", [](v1::JobSpec& spec) { spec.mutable_adaptive_batch()->set_max_batch_size(64); },
       HasSubstr("adaptive_batch")},
      {"verified", [](v1::JobSpec& spec) { spec.set_verify_every(5); }, HasSubstr("verify_every")},
      {"tokens",
       [](v1::JobSpec& spec) {
         spec.mutable_stop()->clear_steps();
         spec.mutable_stop()->set_tokens(1000);
       },
       HasSubstr("stop.tokens")},
      {"tensor ranks",
       [](v1::JobSpec& spec) {
         spec.set_workers(4);
         spec.mutable_parallelism()->set_tensor(2);
       },
       HasSubstr("parallelism.tensor")},
      {"ZeRO 3",
       [](v1::JobSpec& spec) { spec.mutable_parallelism()->mutable_zero()->set_stage(3); },
       HasSubstr("parallelism.zero.stage 3")},
  };
  for (const BadJob& job : jobs) {
    SCOPED_TRACE(job.name);
    ExpectRefused({job.name,
                   [&job](v1::JobSpec& spec) {
                     spec.mutable_update()->set_backup_workers(1);
                     job.spoil(spec);
                   },
                   AllOf(HasSubstr("update.backup_workers is "), job.message)});
  }
}

TEST(BackupWorkersValidatorTest, ProgramsHaveNone) {
  v1::JobSpec spec = ProgramJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_update()->set_backup_workers(1);
  EXPECT_THAT(std::string(ValidateJob(spec).message()), HasSubstr("update.backup_workers"));
}

}  // namespace
}  // namespace muster
