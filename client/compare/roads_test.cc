#include "client/compare/roads.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "common/job/test_jobs.h"
#include "common/job/validation/job_validator.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Names(const ComparableRoads& roads) {
  std::vector<std::string> names;
  for (const Road& road : roads.roads) names.push_back(road.name);
  return names;
}

TEST(RoadsTest, AJobTakesAllRoads) {
  const ComparableRoads roads = RoadsOf(v1::JobSpec(), 4);
  EXPECT_THAT(Names(roads), ElementsAre("BSP", "SSP 4", "ASP", "all-reduce"));
  EXPECT_THAT(roads.left_out, IsEmpty());
}

TEST(RoadsTest, GlobalNormAndDeterminismLeaveOutWhatDoesNotWait) {
  v1::JobSpec clipped;
  clipped.mutable_clipping()->set_by_global_norm(1);
  EXPECT_THAT(Names(RoadsOf(clipped, 4)), ElementsAre("BSP", "all-reduce"));
  EXPECT_THAT(RoadsOf(clipped, 4).left_out, ElementsAre(HasSubstr("by_global_norm")));
  v1::JobSpec deterministic;
  deterministic.mutable_update()->set_deterministic(true);
  EXPECT_THAT(RoadsOf(deterministic, 4).left_out, ElementsAre(HasSubstr("deterministic")));
}

TEST(RoadsTest, OneRoadIsKeptOrTheErrorSaysWhy) {
  ComparableRoads roads = RoadsOf(v1::JobSpec(), 4);
  EXPECT_TRUE(KeepOnly(Road::Kind::kAsp, roads).ok());
  EXPECT_THAT(Names(roads), ElementsAre("ASP"));
  v1::JobSpec clipped;
  clipped.mutable_clipping()->set_by_global_norm(1);
  roads = RoadsOf(clipped, 4);
  const absl::Status refused = KeepOnly(Road::Kind::kAsp, roads);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("by_global_norm"));
  // Nothing was left out.
  ComparableRoads stages = {.roads = {{.kind = Road::Kind::kAllReduce, .name = "stage 0"}}};
  EXPECT_THAT(std::string(KeepOnly(Road::Kind::kBsp, stages).message()), HasSubstr("one road"));
}

TEST(RoadsTest, AJobTakesAllStages) {
  v1::JobSpec job;
  job.set_workers(4);
  job.set_min_workers(2);
  job.mutable_parallelism()->mutable_zero()->set_stage(1);
  job.mutable_parallelism()->mutable_zero()->set_shard(2);
  const ComparableRoads stages = StagesOf(job);
  EXPECT_THAT(Names(stages), ElementsAre("stage 0", "stage 1", "stage 2", "stage 3"));
  EXPECT_THAT(stages.left_out, IsEmpty());
  const v1::JobSpec whole = OnRoad(job, stages.roads[0], 0);
  EXPECT_EQ(whole.parallelism().zero().ByteSizeLong(), 0);
  EXPECT_EQ(whole.min_workers(), 0);
  EXPECT_EQ(whole.update().dense(), v1::UpdateSpec::ALL_REDUCE);
  const v1::JobSpec third = OnRoad(job, stages.roads[3], 0);
  EXPECT_EQ(third.parallelism().zero().stage(), 3);
  EXPECT_EQ(third.parallelism().zero().shard(), 2);
  EXPECT_EQ(third.min_workers(), 0);
}

TEST(RoadsTest, StagesAreForSeveralDataRanks) {
  v1::JobSpec job;
  job.set_workers(1);
  EXPECT_THAT(Names(StagesOf(job)), ElementsAre("stage 0"));
  EXPECT_THAT(StagesOf(job).left_out, ElementsAre(HasSubstr("one data rank")));
  job.set_workers(2);
  for (const auto device : {v1::ComputeSpec::CPU, v1::ComputeSpec::CUDA}) {
    job.mutable_compute()->set_device(device);
    EXPECT_THAT(Names(StagesOf(job)), ElementsAre("stage 0", "stage 1", "stage 2", "stage 3"));
    EXPECT_THAT(StagesOf(job).left_out, IsEmpty());
  }
  // Context ranks divide the state of a single data rank, too.
  job.mutable_compute()->clear_device();
  job.mutable_parallelism()->set_context(2);
  EXPECT_EQ(StagesOf(job).roads.size(), 4);
}

// Each road is a job that submit takes.
TEST(RoadsTest, WhatARoadDoesNotKnowIsLeftOut) {
  v1::JobSpec on_servers = SmallJob();
  on_servers.set_workers(4);
  on_servers.mutable_update()->set_backup_workers(1);
  on_servers.mutable_update()->set_move_hot_partitions(true);
  on_servers.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  v1::JobSpec elastic = AllReduceJob();
  elastic.set_min_workers(1);
  elastic.set_max_workers(4);
  elastic.set_scale_batch(true);
  elastic.mutable_balance();
  elastic.set_verify_every(5);
  for (const v1::JobSpec& job : {on_servers, elastic}) {
    ASSERT_EQ(ValidateJob(job), absl::OkStatus());
    for (const Road& road : RoadsOf(job, 4).roads) {
      EXPECT_EQ(ValidateJob(OnRoad(job, road, 4)), absl::OkStatus()) << road.name;
    }
  }
}

TEST(RoadsTest, AWireThatAllReduceDoesNotKnowLeavesItOut) {
  v1::JobSpec job;
  job.mutable_update()->set_wire(v1::UpdateSpec::F16);
  EXPECT_THAT(Names(RoadsOf(job, 4)), ElementsAre("BSP", "SSP 4", "ASP"));
  EXPECT_THAT(RoadsOf(job, 4).left_out, ElementsAre(HasSubstr("update.wire is F16")));
}

TEST(RoadsTest, OnlyTheUpdateChanges) {
  v1::JobSpec job;
  job.set_name("digits");
  job.set_workers(3);
  job.set_servers(2);
  job.set_min_workers(2);
  job.set_seed(7);
  job.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  job.mutable_update()->set_bucket_bytes(4096);
  job.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);

  const v1::JobSpec ssp = OnRoad(job, {Road::Kind::kSsp, "SSP 4"}, 4);
  EXPECT_EQ(ssp.name(), "digits (SSP 4)");
  EXPECT_EQ(ssp.update().dense(), v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(ssp.update().staleness_bound(), 4);
  EXPECT_FALSE(ssp.update().unlimited_staleness());
  EXPECT_EQ(ssp.update().wire(), v1::UpdateSpec::BF16);
  EXPECT_EQ(ssp.update().bucket_bytes(), 0);
  EXPECT_EQ(ssp.update().durability(), v1::UpdateSpec::CHECKPOINT);
  EXPECT_TRUE(ssp.checkpoint().has_keep_best() && !ssp.checkpoint().keep_best());
  EXPECT_EQ(ssp.servers(), 0);
  EXPECT_EQ(ssp.min_workers(), 0);
  EXPECT_EQ(ssp.workers(), 3);
  EXPECT_EQ(ssp.seed(), 7);

  EXPECT_TRUE(OnRoad(job, {Road::Kind::kAsp, "ASP"}, 4).update().unlimited_staleness());

  const v1::JobSpec reduced = OnRoad(job, {Road::Kind::kAllReduce, "all-reduce"}, 4);
  EXPECT_EQ(reduced.update().dense(), v1::UpdateSpec::ALL_REDUCE);
  EXPECT_EQ(reduced.update().sparse(), v1::UpdateSpec::ALL_REDUCE);
  EXPECT_EQ(reduced.update().staleness_bound(), 0);
  EXPECT_EQ(reduced.update().wire(), v1::UpdateSpec::BF16);
  EXPECT_EQ(reduced.update().bucket_bytes(), 4096);
  EXPECT_EQ(reduced.servers(), 0);
  EXPECT_EQ(reduced.min_workers(), 2);
}

TEST(RoadsTest, ServersTakeTheJobWithoutItsShards) {
  v1::JobSpec job;
  job.set_workers(4);
  job.mutable_parallelism()->mutable_zero()->set_stage(2);
  EXPECT_THAT(Names(RoadsOf(job, 4)),
              ElementsAre("BSP", "SSP 4", "ASP", "all-reduce, zero stage 2 over 4 ranks"));
  EXPECT_FALSE(OnRoad(job, {Road::Kind::kBsp, "BSP"}, 4).parallelism().has_zero());
  EXPECT_EQ(OnRoad(job, {Road::Kind::kAllReduce, "all-reduce"}, 4).parallelism().zero().stage(), 2);
}

// A perceptron of four layers on two stages.
v1::JobSpec PipelineJob() {
  v1::JobSpec job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'p' model { mlp { hidden: [8, 8, 8] classes: 4 } } data { synthetic_classification { "
      "examples: 100 features: 8 classes: 4 } } optimizer { name: 'sgd' learning_rate: 0.1 } "
      "stop { steps: 10 } update { dense: ALL_REDUCE } batch_size: 16 micro_batches: 4 workers: 4 "
      "threads_per_worker: 1 parallelism { pipeline: 2 pipeline_schedule: INTERLEAVED "
      "pipeline_chunks: 2 pipeline_layers: [1, 1, 1, 1] }",
      &job));
  return job;
}

TEST(RoadsTest, AJobTakesAllSchedules) {
  const v1::JobSpec job = PipelineJob();
  const ComparableRoads schedules = SchedulesOf(job);
  EXPECT_THAT(schedules.left_out, IsEmpty());
  ASSERT_THAT(Names(schedules), ElementsAre("no pipeline", "LAYER_WISE", "GPIPE", "ONE_F_ONE_B",
                                            "INTERLEAVED", "ZERO_BUBBLE"));
  const v1::JobSpec whole = OnRoad(job, schedules.roads[0], 0);
  EXPECT_EQ(whole.workers(), 2);
  EXPECT_EQ(whole.threads_per_worker(), 2);
  EXPECT_EQ(whole.micro_batches(), 4);
  EXPECT_EQ(whole.parallelism().ByteSizeLong(), 0);
  EXPECT_EQ(OnRoad(job, schedules.roads[1], 0).micro_batches(), 0);
  const v1::JobSpec gpipe = OnRoad(job, schedules.roads[2], 0);
  EXPECT_EQ(gpipe.parallelism().pipeline_schedule(), v1::ParallelismSpec::GPIPE);
  EXPECT_EQ(gpipe.parallelism().pipeline_chunks(), 0);
  EXPECT_EQ(gpipe.parallelism().pipeline_layers_size(), 0);
  EXPECT_EQ(gpipe.update().dense(), v1::UpdateSpec::ALL_REDUCE);
  EXPECT_EQ(OnRoad(job, schedules.roads[4], 0).parallelism().pipeline_layers_size(), 4);
}

TEST(RoadsTest, SchedulesThatTheJobExcludesAreLeftOut) {
  v1::JobSpec job = PipelineJob();
  job.mutable_parallelism()->mutable_zero()->set_stage(2);
  const ComparableRoads schedules = SchedulesOf(job);
  EXPECT_THAT(Names(schedules), ElementsAre("no pipeline", "LAYER_WISE", "GPIPE", "ONE_F_ONE_B"));
  EXPECT_THAT(schedules.left_out, ElementsAre(HasSubstr("INTERLEAVED: parallelism.zero.stage is 2"),
                                              HasSubstr("ZERO_BUBBLE: parallelism.zero.stage")));
}

TEST(RoadsTest, WorkersThatComputeTogetherReadOneVersion) {
  v1::JobSpec job = PipelineJob();
  EXPECT_THAT(RoadsOf(job, 4).left_out, Contains(HasSubstr("SSP and ASP: workers that")));
  *job.mutable_parallelism() = v1::ParallelismSpec();
  job.mutable_parallelism()->set_tensor(2);
  EXPECT_THAT(Names(RoadsOf(job, 4)), ElementsAre("BSP", "all-reduce, tensor 2"));
  job.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  EXPECT_THAT(Names(RoadsOf(job, 4)), ElementsAre("all-reduce, tensor 2"));
  EXPECT_THAT(RoadsOf(job, 4).left_out,
              ElementsAre(HasSubstr("SSP and ASP"), HasSubstr("BSP: update.wire is BF16")));
}

}  // namespace
}  // namespace muster
