#include "client/plan/job_plan.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/plan/job_plans_for_testing.h"
#include "client/plan/plan_output.h"
#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(JobPlanTest, KnowsWhatEachRoadMoves) {
  const auto plan = PlanOf(Gpt("workers: 4"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const double bytes = 4.0 * static_cast<double>(plan->model.dense());
  ASSERT_EQ(plan->traffic.size(), 2u);
  EXPECT_FALSE(plan->traffic[0].all_reduce);
  EXPECT_EQ(plan->traffic[0].sent, bytes);
  EXPECT_EQ(plan->traffic[0].received, bytes);
  EXPECT_EQ(plan->traffic[1].sent, 2.0 * 3 / 4 * bytes);
  const auto half = PlanOf(Gpt("workers: 4 update { wire: BF16 }"));
  EXPECT_EQ(half->traffic[0].sent, bytes / 2);
  EXPECT_EQ(half->traffic[1].sent, 2.0 * 3 / 4 * bytes / 2);
}

TEST(JobPlanTest, SmallBucketsGoToAllAtOnce) {
  const std::string job =
      "model { mlp { hidden: 8 classes: 2 } } data { synthetic_classification { examples: 100 "
      "features: 10 classes: 2 } } optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 8 "
      "workers: ";
  const double bytes = 4 * (11 * 8 + 9 * 2);
  EXPECT_EQ(PlanOf(Job(job + "2"))->traffic[1].sent, bytes);
  EXPECT_EQ(PlanOf(Job(job + "3"))->traffic[1].sent, 2 * bytes);
  EXPECT_EQ(PlanOf(Job(job + "4"))->traffic[1].received, 3 * bytes);
}

TEST(JobPlanTest, ComparesKindsOfRecomputation) {
  const auto plan = PlanOf(Gpt());
  ASSERT_EQ(plan->recompute.size(), 3u);
  EXPECT_EQ(plan->recompute[0].worker_bytes, plan->memory.worker_bytes());
  EXPECT_GT(plan->recompute[0].activation_bytes, plan->recompute[1].activation_bytes);
  EXPECT_GT(plan->recompute[1].activation_bytes, plan->recompute[2].activation_bytes);
}

TEST(JobPlanTest, RecomputationOnDevicesIsOfTheirMemory) {
  for (const std::string ranks : {"", " workers: 2 parallelism { tensor: 2 sequence: false }"}) {
    SCOPED_TRACE(ranks);
    const auto plan =
        PlanOf(ByAllReduce(absl::StrCat("compute { device: CUDA recompute: SELECTIVE }", ranks)));
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->recompute.size(), 3u);
    EXPECT_EQ(plan->recompute[1].device_bytes, plan->memory.device_bytes());
    for (size_t i = 1; i < 3; ++i) {
      const RecomputePlan& more = plan->recompute[i - 1];
      const RecomputePlan& less = plan->recompute[i];
      EXPECT_EQ(less.worker_bytes, more.worker_bytes);
      EXPECT_GT(more.activation_bytes, less.activation_bytes);
      EXPECT_EQ(more.device_bytes - less.device_bytes,
                more.activation_bytes - less.activation_bytes);
    }
  }
}

TEST(JobPlanTest, ComparesStagesOfZero) {
  const auto plan = PlanOf(ByAllReduce("workers: 4"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->stages.size(), 4);
  EXPECT_EQ(plan->stages[0].worker_bytes, plan->memory.worker_own_bytes());
  EXPECT_DOUBLE_EQ(plan->stages[0].state_bytes_per_parameter, 16);
  EXPECT_NEAR(plan->stages[1].state_bytes_per_parameter, 8 + 8.0 / 4, 0.5);
  EXPECT_NEAR(plan->stages[2].state_bytes_per_parameter, 4 + 12.0 / 4, 0.5);
  EXPECT_NEAR(plan->stages[3].state_bytes_per_parameter, 16.0 / 4, 0.5);
  EXPECT_EQ(plan->stages[1].published_bytes_per_parameter, 4 + 12.0 / 4);
  EXPECT_EQ(plan->stages[3].published_bytes_per_parameter, 16.0 / 4);
  for (int stage = 1; stage <= 3; ++stage) {
    const auto own = PlanOf(ByAllReduce(absl::StrCat("workers: 4 ", Stage(stage))));
    EXPECT_EQ(plan->stages[stage].worker_bytes, own->memory.worker_own_bytes());
    EXPECT_EQ(own->stages[0].worker_bytes, plan->stages[0].worker_bytes);
  }
  // A job on servers is planned as if it trained by all-reduce.
  EXPECT_EQ(PlanOf(Gpt("workers: 4"))->stages[3].worker_bytes, plan->stages[3].worker_bytes);
  // State is divided within a shard group, which is half of the job here.
  const auto groups = PlanOf(ByAllReduce("workers: 4 parallelism { zero { stage: 2 shard: 2 } }"));
  EXPECT_EQ(groups->stages[3].published_bytes_per_parameter, 16.0 / 2);
}

TEST(JobPlanTest, ComparesNoStagesWhereNothingCanBeDivided) {
  EXPECT_TRUE(PlanOf(Gpt())->stages.empty());
}

// Their bytes a parameter are those of workers on processors.
TEST(JobPlanTest, ComparesWhatDevicesHaveUnderStages) {
  const auto plan = PlanOf(Gpt("workers: 4 compute { device: CUDA }"));
  const auto on_host = PlanOf(Gpt("workers: 4"));
  ASSERT_EQ(plan->stages.size(), 4);
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    v1::JobSpec spec = Gpt("workers: 4 compute { device: CUDA }");
    spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
    EXPECT_EQ(plan->stages[stage].device_bytes, PlanOf(spec)->memory.device_bytes()) << stage;
    EXPECT_NEAR(plan->stages[stage].state_bytes_per_parameter,
                on_host->stages[stage].state_bytes_per_parameter, 0.01)
        << stage;
  }
  EXPECT_THAT(PlanText(*plan), HasSubstr("Memory of each device by all-reduce, by ZeRO stage"));
}

TEST(JobPlanTest, KnowsWhatAStageMoves) {
  const auto sent = [](const std::string& more) {
    return PlanOf(ByAllReduce("workers: 4 micro_batches: 2 " + more))->traffic[1].sent;
  };
  const double P = static_cast<double>(PlanOf(Gpt())->model.dense());
  EXPECT_NEAR(sent(Stage(1)), 0.75 * P * 8, 0.05 * 0.75 * P * 8);
  EXPECT_NEAR(sent(Stage(2)), 0.75 * P * 12, 0.05 * 0.75 * P * 12);
  EXPECT_GT(sent(Stage(3)), sent(Stage(2)));
}

TEST(JobPlanTest, ExpectsRowsOfSparseTables) {
  const std::string job =
      "model { deep_fm { embedding_dim: 7 } } data { synthetic_clicks { examples: 100000 "
      "fields: 4 cardinality: 1 } } optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 64 "
      "workers: 2 ";
  // Each job also has the traffic of the road that it does not take.
  for (const char* update : {"", "update { dense: ALL_REDUCE sparse: ALL_REDUCE }"}) {
    const auto plan = PlanOf(Job(absl::StrCat(job, update)));
    ASSERT_TRUE(plan.ok()) << plan.status();
    // One value each: four keys with rows of eight floats, to the one other worker.
    EXPECT_EQ(plan->traffic[1].rows_sent, 4 * (8 + 32));
    EXPECT_EQ(plan->traffic[0].rows_sent, 4 * (8 + 8 + 32));
    EXPECT_EQ(plan->traffic[0].rows_received, 4 * 32);
  }
  const auto hybrid =
      PlanOf(Job(absl::StrCat(job, "update { dense: ALL_REDUCE sparse: PARAMETER_SERVER }")));
  ASSERT_TRUE(hybrid.ok()) << hybrid.status();
  EXPECT_EQ(hybrid->traffic[1].rows_sent, 4 * (8 + 8 + 32));
}

TEST(JobPlanTest, AJobThatLeavesWorkersOutHasOne) {
  const std::string clicks =
      "model { deep_fm { embedding_dim: 7 } } data { synthetic_clicks { examples: 100000 "
      "fields: 4 cardinality: 50 } } optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 64 ";
  const std::string all_reduce = "update { dense: ALL_REDUCE sparse: ALL_REDUCE } ";
  for (const v1::JobSpec& spec :
       {Gpt(), Gpt(all_reduce), Job(clicks), Job(absl::StrCat(clicks, all_reduce))}) {
    v1::JobSpec one = spec;
    one.set_workers(1);
    const auto plan = PlanOf(spec), wanted = PlanOf(one);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(PlanJson(*plan), PlanJson(*wanted));
    EXPECT_EQ(plan->traffic[1].sent, 0);
    EXPECT_EQ(plan->traffic[1].rows_sent, 0);
  }
}

// The coordinator's table, which submit prints, is of the job with its defaults.
TEST(JobPlanTest, DeterministicJobsArePlannedForOneThread) {
  const auto plan = PlanOf(Gpt("update { deterministic: true }"), {.threads = 64});
  const auto wanted =
      PlanOf(Gpt("update { deterministic: true } threads_per_worker: 1"), {.threads = 64});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->memory.worker_bytes(), wanted->memory.worker_bytes());
  EXPECT_LT(plan->memory.worker_bytes(), PlanOf(Gpt(), {.threads = 64})->memory.worker_bytes());
}

TEST(JobPlanTest, RefusesWhatSubmitRefuses) {
  const std::function<void(v1::JobSpec&)> faults[] = {
      [](v1::JobSpec& spec) { spec.clear_model(); },
      [](v1::JobSpec& spec) { spec.clear_data(); },
      [](v1::JobSpec& spec) { spec.mutable_data()->mutable_csv()->set_path("t"); },
      [](v1::JobSpec& spec) { spec.set_batch_size(0); },
      [](v1::JobSpec& spec) { spec.set_workers(4'000'000'000); },
      [](v1::JobSpec& spec) { spec.set_servers(9); },
      [](v1::JobSpec& spec) { spec.mutable_model()->mutable_transformer()->set_heads(3); },
      [](v1::JobSpec& spec) { spec.mutable_model()->mutable_transformer()->set_layers(100'000); },
      [](v1::JobSpec& spec) { spec.mutable_optimizer()->set_name("adman"); },
      [](v1::JobSpec& spec) { spec.mutable_update()->set_partitions(1 << 30); },
      [](v1::JobSpec& spec) { spec.mutable_parallelism()->set_tensor(2); },
      [](v1::JobSpec& spec) { spec.mutable_sparse_tables()->set_keep_from_updates(2); },
      [](v1::JobSpec& spec) { spec.clear_stop(); }};
  for (const auto& fault : faults) {
    v1::JobSpec spec = Gpt();
    fault(spec);
    const absl::Status refused = ValidateJob(spec);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(PlanOf(spec).status(), refused);
  }
}

TEST(JobPlanTest, RefusesWhatCannotBeLaidOut) {
  v1::JobSpec spec = Gpt("update { dense: ALL_REDUCE sparse: ALL_REDUCE bucket_bytes: 4 }");
  EXPECT_EQ(PlanOf(spec).status(), absl::OkStatus());
  spec.mutable_model()->mutable_transformer()->set_vocabulary(1 << 24);
  EXPECT_THAT(std::string(PlanOf(spec).status().message()),
              HasSubstr("update.bucket_bytes is 4, which cuts"));
}

// Of a schedule for each rank, or of pairs of tensors, there would be too many.
TEST(JobPlanTest, TheLargestJobsTakeAMoment) {
  v1::JobSpec spec = Gpt("workers: 4096 update { dense: ALL_REDUCE sparse: ALL_REDUCE }");
  spec.set_batch_size(4096);
  spec.mutable_model()->mutable_transformer()->set_layers(1024);
  const auto plan = PlanOf(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const double bytes = 4.0 * static_cast<double>(plan->model.dense());
  EXPECT_NEAR(plan->traffic[1].sent, 2.0 * 4095 / 4096 * bytes, 1e-3 * bytes);
}

}  // namespace
}  // namespace muster
