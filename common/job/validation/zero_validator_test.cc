#include "common/job/validation/zero_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/job/job_road.h"
#include "common/job/test_jobs.h"
#include "common/job/validation/bad_job_for_testing.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

v1::JobSpec ZeroJob(uint32_t stage) {
  v1::JobSpec spec = AllReduceJob();
  spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  return spec;
}

v1::ZeroSpec& Zero(v1::JobSpec& spec) { return *spec.mutable_parallelism()->mutable_zero(); }

struct BadZero {
  const char* name;
  uint32_t stage;
  std::function<void(v1::JobSpec&)> spoil;
  Matcher<std::string> message;
};

class BadZeroTest : public ::testing::TestWithParam<BadZero> {};

TEST_P(BadZeroTest, IsRefusedByName) {
  v1::JobSpec spec = ZeroJob(GetParam().stage);
  GetParam().spoil(spec);
  // The job's validator calls this one.
  for (const absl::Status& status : {ValidateZero(spec), ValidateJob(spec)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), GetParam().message);
  }
}

void OnServers(v1::JobSpec& spec) {
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
}

void Offloads(v1::JobSpec& spec) { Zero(spec).set_offload(v1::ZeroSpec::OPTIMIZER_STATE); }

void Keeps(v1::JobSpec& spec) { Zero(spec).set_keep_gathered_bytes(1024); }

INSTANTIATE_TEST_SUITE_P(
    All, BadZeroTest,
    ::testing::Values(
        BadZero{"NoSuchStage", 4, [](v1::JobSpec&) {},
                HasSubstr("parallelism.zero.stage is 4; it must be at most 3")},
        BadZero{"ShardWithoutAStage", 0, [](v1::JobSpec& s) { Zero(s).set_shard(2); },
                HasSubstr("parallelism.zero.shard is 2; but parallelism.zero.stage is 0")},
        BadZero{"RedundancyWithoutAStage", 0, [](v1::JobSpec& s) { Zero(s).set_redundancy(1); },
                HasSubstr("parallelism.zero.redundancy is 1; but parallelism.zero.stage is 0")},
        BadZero{"OffloadWithoutAStage", 0, Offloads,
                HasSubstr("parallelism.zero.offload is OPTIMIZER_STATE; but "
                          "parallelism.zero.stage is 0")},
        BadZero{"KeptWithoutAStage", 0, Keeps,
                HasSubstr("parallelism.zero.keep_gathered_bytes is 1024; but "
                          "parallelism.zero.stage is 0")},
        BadZero{"KeptBelowStageThree", 2, Keeps,
                AllOf(HasSubstr("parallelism.zero.keep_gathered_bytes is 1024; but "
                                "parallelism.zero.stage is 2, under which all weights"),
                      HasSubstr("leave it out, or take stage 3"))},
        BadZero{"KeptOnServers", 3,
                [](v1::JobSpec& s) {
                  OnServers(s);
                  Keeps(s);
                },
                HasSubstr("parallelism.zero.keep_gathered_bytes is 1024; but update.dense is "
                          "PARAMETER_SERVER")},
        BadZero{"OffloadOnServers", 3,
                [](v1::JobSpec& s) {
                  OnServers(s);
                  Offloads(s);
                },
                AllOf(HasSubstr("parallelism.zero.offload is OPTIMIZER_STATE; but update.dense is "
                                "PARAMETER_SERVER"),
                      HasSubstr("or take update.dense ALL_REDUCE"))},
        BadZero{"StageOneOnServers", 1, OnServers,
                AllOf(HasSubstr("parallelism.zero.stage is 1; but update.dense is "
                                "PARAMETER_SERVER, where servers hold optimizer state"),
                      HasSubstr("take stage 3"), HasSubstr("or update.dense ALL_REDUCE"))},
        BadZero{"StageTwoOnServers", 2, OnServers, HasSubstr("where servers hold")},
        BadZero{"StaleParameters", 3,
                [](v1::JobSpec& s) {
                  OnServers(s);
                  s.mutable_update()->set_staleness_bound(1);
                },
                AllOf(HasSubstr("parallelism.zero.stage is 3; but parameters may change between"),
                      HasSubstr("set update.staleness_bound 0"))},
        BadZero{"AsynchronousParameters", 3,
                [](v1::JobSpec& s) {
                  OnServers(s);
                  s.mutable_update()->set_unlimited_staleness(true);
                },
                HasSubstr("parallelism.zero.stage is 3; but parameters may change between")},
        BadZero{"HalvesOnTheWireToServers", 3,
                [](v1::JobSpec& s) {
                  OnServers(s);
                  s.mutable_update()->set_wire(v1::UpdateSpec::BF16);
                },
                HasSubstr("update.wire is BF16; but parallelism.zero.stage is 3, where workers")},
        BadZero{"ShardOnServers", 3,
                [](v1::JobSpec& s) {
                  OnServers(s);
                  Zero(s).set_shard(2);
                },
                HasSubstr("parallelism.zero.shard is 2; but update.dense is PARAMETER_SERVER")},
        BadZero{"RedundancyOnServers", 3,
                [](v1::JobSpec& s) {
                  OnServers(s);
                  Zero(s).set_redundancy(1);
                },
                HasSubstr("parallelism.zero.redundancy is 1; but update.dense is "
                          "PARAMETER_SERVER")},
        BadZero{"ShardDoesNotDivide", 2,
                [](v1::JobSpec& s) {
                  s.set_workers(8);
                  Zero(s).set_shard(3);
                },
                HasSubstr("parallelism.zero.shard is 3; it must divide the data ranks, which are "
                          "8: take one of 2, 4, 8, or 0")},
        BadZero{"ShardAboveTheDataRanks", 2, [](v1::JobSpec& s) { Zero(s).set_shard(4); },
                HasSubstr("which are 2: take one of 2, or 0")},
        BadZero{"ShardOfASingleRank", 2,
                [](v1::JobSpec& s) {
                  s.set_workers(1);
                  Zero(s).set_shard(2);
                },
                HasSubstr("which are 1: take one of 1, or 0")},
        BadZero{"MinWorkersOfShardGroups", 1,
                [](v1::JobSpec& s) {
                  s.set_workers(4);
                  s.set_min_workers(2);
                  Zero(s).set_shard(2);
                },
                HasSubstr("min_workers is 2; but parallelism.zero.shard is 2 of 4 data ranks")},
        BadZero{"RedundancyOfAHybridJob", 3,
                [](v1::JobSpec& s) {
                  s = HybridJob();
                  Zero(s).set_stage(3);
                  Zero(s).set_redundancy(1);
                },
                AllOf(HasSubstr("parallelism.zero.redundancy is 1; but update.sparse is "
                                "PARAMETER_SERVER"),
                      HasSubstr("checkpoint.every_steps"))},
        BadZero{"RedundancyWithReplicas", 1,
                [](v1::JobSpec& s) {
                  s.set_workers(4);
                  Zero(s).set_shard(2);
                  Zero(s).set_redundancy(1);
                },
                HasSubstr("but parallelism.zero.shard is 2 of 4 data ranks, so other shard groups "
                          "have replicas")},
        BadZero{"RedundancyWithOffload", 2,
                [](v1::JobSpec& s) {
                  Zero(s).set_redundancy(1);
                  Offloads(s);
                },
                HasSubstr("parallelism.zero.redundancy is 1; but parallelism.zero.offload")},
        BadZero{"RedundancyOfASingleRank", 2,
                [](v1::JobSpec& s) {
                  s.set_workers(1);
                  Zero(s).set_redundancy(1);
                },
                HasSubstr("but a shard group of this job is a single rank")},
        BadZero{"MuchRedundancy", 3, [](v1::JobSpec& s) { Zero(s).set_redundancy(2); },
                HasSubstr("parallelism.zero.redundancy is 2; it must be 0 or 1")},
        BadZero{"NoSuchOffload", 3,
                [](v1::JobSpec& s) { Zero(s).set_offload(static_cast<v1::ZeroSpec::Offload>(7)); },
                HasSubstr("parallelism.zero.offload is 7; it must be OPTIMIZER_STATE")}),
    [](const auto& info) { return info.param.name; });

TEST(ZeroValidatorTest, TakesEveryStageByAllReduce) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    v1::JobSpec spec = ZeroJob(stage);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << stage;
    spec.set_min_workers(2);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << "no fewer than all workers";
    OnDevices(spec);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << stage << " on devices";
  }
  v1::JobSpec groups = ZeroJob(3);
  groups.set_workers(8);
  for (uint32_t shard : {0, 1, 2, 4, 8}) {
    Zero(groups).set_shard(shard);
    EXPECT_EQ(ValidateJob(groups), absl::OkStatus()) << shard;
  }
  v1::JobSpec hybrid = HybridJob();
  Zero(hybrid).set_stage(2);
  EXPECT_EQ(ValidateJob(hybrid), absl::OkStatus()) << "its dense part is divided";
}

TEST(ZeroValidatorTest, TakesOffloadInEveryStage) {
  for (uint32_t stage = 1; stage <= 3; ++stage) {
    for (uint32_t workers : {1, 2}) {
      v1::JobSpec spec = ZeroJob(stage);
      spec.set_workers(workers);
      Offloads(spec);
      EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << stage;
      EXPECT_TRUE(OffloadsOptimizerState(spec));
      if (stage == 3) Keeps(spec);
      EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
      // A single worker gathers nothing.
      EXPECT_EQ(KeptGatheredBytes(spec), stage == 3 && workers == 2 ? 1024 : 0);
    }
  }
  EXPECT_FALSE(OffloadsOptimizerState(ZeroJob(3)));
  v1::JobSpec evaluates = ZeroJob(3);
  Offloads(evaluates);
  evaluates.mutable_stop()->clear_steps();
  evaluates.mutable_stop()->set_evaluate_only(true);
  EXPECT_FALSE(OffloadsOptimizerState(evaluates)) << "it has no steps";
}

TEST(ZeroValidatorTest, TakesStageThreeOnServers) {
  v1::JobSpec spec = ZeroJob(3);
  OnServers(spec);
  spec.set_micro_batches(2);
  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  FillDefaults(spec);
  EXPECT_EQ(spec.parallelism().zero().shard(), 0u);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

TEST(ZeroValidatorTest, RanksOfOneShardGroupMayBecomeFewer) {
  for (uint32_t stage = 1; stage <= 3; ++stage) {
    v1::JobSpec spec = ZeroJob(stage);
    spec.set_workers(3);
    spec.set_min_workers(1);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << stage;
    FillDefaults(spec);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << "the shard group's size is filled in";
    Zero(spec).set_redundancy(1);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << stage;
    v1::JobSpec with_rows = HybridJob();
    with_rows.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
    Zero(with_rows).set_stage(stage);
    with_rows.mutable_update()->set_partitions(3);
    with_rows.set_workers(3);
    with_rows.set_min_workers(1);
    EXPECT_EQ(ValidateJob(with_rows), absl::OkStatus()) << stage;
    Zero(with_rows).set_redundancy(1);
    EXPECT_EQ(ValidateJob(with_rows), absl::OkStatus()) << stage;
  }
}

TEST(ZeroValidatorTest, JobsThatDivideNothingMayLoseWorkers) {
  v1::JobSpec spec = ZeroJob(3);
  spec.set_min_workers(1);
  Zero(spec).set_shard(1);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  // One more line in a training job's file makes it evaluate the weights.
  Zero(spec).set_shard(2);
  spec.mutable_stop()->clear_steps();
  spec.mutable_stop()->set_evaluate_only(true);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  Zero(spec).clear_shard();
  Zero(spec).set_redundancy(1);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

TEST(ZeroValidatorTest, CopiesAreForOneShardGroup) {
  for (uint32_t stage = 1; stage <= 3; ++stage) {
    v1::JobSpec spec = ZeroJob(stage);
    Zero(spec).set_redundancy(1);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
    FillDefaults(spec);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  }
}

// With sparse tables, too, whose rows replicas and copies have as well.
TEST(ZeroValidatorTest, LossesAreNotFinalWhereOthersHaveTheSlice) {
  v1::JobSpec spec = ZeroJob(3);
  spec.set_workers(4);
  for (const bool dense : {false, true}) {
    if (dense) {
      spec.mutable_model()->mutable_mlp();
    } else {
      spec.mutable_model()->mutable_logistic_regression();
    }
    Zero(spec).clear_shard();
    Zero(spec).clear_redundancy();
    EXPECT_TRUE(LossIsFinal(spec));
    Zero(spec).set_redundancy(1);
    EXPECT_FALSE(LossIsFinal(spec));
    Zero(spec).clear_redundancy();
    Zero(spec).set_shard(2);
    EXPECT_FALSE(LossIsFinal(spec));
    Zero(spec).set_shard(4);
    EXPECT_TRUE(LossIsFinal(spec));
  }
}

TEST(ZeroValidatorTest, LossesAreFinalWhereNobodyElseHasTheSlice) {
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    EXPECT_EQ(LossIsFinal(ZeroJob(stage)), stage > 0) << stage;
  }
  v1::JobSpec spec = ZeroJob(3);
  Zero(spec).set_shard(1);
  EXPECT_FALSE(LossIsFinal(spec));
  spec.set_workers(4);
  Zero(spec).set_shard(2);
  EXPECT_FALSE(LossIsFinal(spec)) << "replicas have the slice";
  OnDevices(spec);
  EXPECT_FALSE(LossIsFinal(spec)) << "on devices, too";
  EXPECT_TRUE(LossIsFinal(HybridJob()));
  EXPECT_FALSE(LossIsFinal(SmallJob()));
}

TEST(ZeroValidatorTest, EventsNameTheStage) {
  EXPECT_EQ(PolicyName(ZeroJob(3)), "all-reduce, zero stage 3 over 2 ranks");
  v1::JobSpec spec = ZeroJob(1);
  spec.set_workers(8);
  Zero(spec).set_shard(4);
  EXPECT_EQ(PolicyName(spec), "all-reduce, zero stage 1 over groups of 4 ranks");
  v1::JobSpec hybrid = HybridJob();
  Zero(hybrid).set_stage(2);
  EXPECT_EQ(PolicyName(hybrid),
            "all-reduce with sparse tables on servers, zero stage 2 over 2 ranks");
  Zero(hybrid).set_shard(1);
  EXPECT_EQ(ZeroName(hybrid), "") << "a rank alone divides nothing";
  v1::JobSpec on_servers = ZeroJob(3);
  on_servers.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(PolicyName(on_servers), "BSP, zero stage 3");
}

TEST(ZeroValidatorTest, EachRankOwnsRows) {
  v1::JobSpec spec = ZeroJob(1);
  spec.mutable_model()->mutable_deep_fm()->set_embedding_dim(4);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  spec.set_workers(12);
  spec.mutable_update()->clear_partitions();
  v1::JobSpec few = spec;
  few.mutable_update()->set_partitions(11);
  EXPECT_THAT(std::string(ValidateZero(few).message()),
              AllOf(HasSubstr("update.partitions is 11; but the 12 ranks of a shard group"),
                    HasSubstr("raise it to 12 at least")));
  Zero(few).set_shard(6);
  EXPECT_EQ(ValidateZero(few), absl::OkStatus());
  Zero(few).set_shard(0);
  few.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(ValidateZero(few), absl::OkStatus()) << "rows are on servers";
  EXPECT_EQ(ValidateZero(spec), absl::OkStatus());
  FillDefaults(spec);
  EXPECT_EQ(spec.update().partitions(), 12u);
  EXPECT_TRUE(LossIsFinal(spec)) << "nobody else has a lost rank's rows";
  EXPECT_EQ(ValidateZero(spec), absl::OkStatus());
}

TEST(ZeroValidatorTest, TheShardGroupIsWrittenOut) {
  v1::JobSpec spec = ZeroJob(1);
  FillDefaults(spec);
  EXPECT_EQ(spec.parallelism().zero().shard(), 2);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  v1::JobSpec given = ZeroJob(1);
  given.set_workers(4);
  Zero(given).set_shard(2);
  FillDefaults(given);
  EXPECT_EQ(given.parallelism().zero().shard(), 2);
  v1::JobSpec whole = AllReduceJob();
  FillDefaults(whole);
  EXPECT_FALSE(whole.parallelism().has_zero());
}

}  // namespace
}  // namespace muster
