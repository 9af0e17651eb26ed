#include "common/job/validation/balance_validator.h"

#include <vector>

#include "common/job/validation/bad_job_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void Change(v1::JobSpec& spec, uint64_t step, std::initializer_list<uint32_t> shares) {
  v1::ShareChange& change = *spec.add_share_changes();
  change.set_step(step);
  for (const uint32_t each : shares) change.add_shares(each);
}

TEST(BalanceValidatorTest, WhatCannotBeUnequalIsRefusedByName) {
  const std::vector<BadJob> jobs = {
      BadJob{"OneRank",
             [](v1::JobSpec& s) {
               s.set_workers(1);
               s.mutable_balance();
             },
             AllOf(HasSubstr("balance is set"), HasSubstr("one data rank"))},
      BadJob{"Stale",
             [](v1::JobSpec& s) {
               s.mutable_update()->set_staleness_bound(1);
               s.mutable_balance();
             },
             HasSubstr("staleness_bound is not 0")},
      BadJob{"Deterministic",
             [](v1::JobSpec& s) {
               s.mutable_update()->set_deterministic(true);
               s.mutable_balance();
             },
             AllOf(HasSubstr("update.deterministic"), HasSubstr("share_changes"))},
      BadJob{"Both",
             [](v1::JobSpec& s) {
               Change(s, 0, {1, 2});
               s.mutable_balance();
             },
             HasSubstr("but share_changes says")},
      BadJob{"Backups",
             [](v1::JobSpec& s) {
               s.mutable_update()->set_backup_workers(1);
               s.mutable_balance();
             },
             HasSubstr("balance is set; but update.backup_workers")},
      BadJob{"Shrinks", [](v1::JobSpec& s) { s.mutable_balance()->set_most(0.5); },
             HasSubstr("balance.most is 0.5")},
      BadJob{"NoNumber", [](v1::JobSpec& s) { s.mutable_balance()->set_most(kNan); },
             HasSubstr("balance.most is nan")},
      BadJob{"TooFew", [](v1::JobSpec& s) { Change(s, 0, {1}); },
             AllOf(HasSubstr("share_changes[0].shares is a list of 1"), HasSubstr("2 data ranks"))},
      BadJob{"Nothing",
             [](v1::JobSpec& s) {
               Change(s, 0, {1, 0});
             },
             HasSubstr("share_changes[0].shares is 0 to 1")},
      BadJob{"TooUneven",
             [](v1::JobSpec& s) {
               Change(s, 0, {1, 101});
             },
             HasSubstr("at most 100 times")},
      BadJob{"Unordered",
             [](v1::JobSpec& s) {
               Change(s, 3, {1, 2});
               Change(s, 3, {2, 1});
             },
             HasSubstr("share_changes[1].step is 3")},
      BadJob{"Stages",
             [](v1::JobSpec& s) {
               s.set_workers(4);
               s.mutable_parallelism()->set_pipeline(2);
               s.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
               s.mutable_balance();
             },
             HasSubstr("parallelism.pipeline is above 1")},
  };
  for (const BadJob& bad : jobs) {
    SCOPED_TRACE(bad.name);
    ExpectRefused(bad);
  }
}

TEST(BalanceValidatorTest, BothRoadsAreFine) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_balance();
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.clear_balance();
  Change(spec, 0, {3, 1});
  Change(spec, 5, {1, 1});
  spec.mutable_update()->set_deterministic(true);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

}  // namespace
}  // namespace muster
