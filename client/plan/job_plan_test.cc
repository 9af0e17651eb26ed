#include "client/plan/job_plan.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/plan/plan_output.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::JobSpec Job(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

v1::JobSpec Gpt(const std::string& more = "") {
  return Job(
      absl::StrCat("name: 'g' model { transformer { layers: 2 width: 64 heads: 2 context: 32",
                   " } } data { sequences { path: 't' } } ",
                   "optimizer { name: 'adamw' learning_rate: 0.1 } batch_size: 8 ", more));
}

absl::StatusOr<JobPlan> PlanOf(const v1::JobSpec& spec) {
  return PlanJob(spec, SizeOfData(spec.data()));
}

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

TEST(JobPlanTest, ComparesKindsOfRecomputation) {
  const auto plan = PlanOf(Gpt());
  ASSERT_EQ(plan->recompute.size(), 3u);
  EXPECT_EQ(plan->recompute[0].worker_bytes, plan->memory.worker_bytes());
  EXPECT_GT(plan->recompute[0].activation_bytes, plan->recompute[1].activation_bytes);
  EXPECT_GT(plan->recompute[1].activation_bytes, plan->recompute[2].activation_bytes);
}

TEST(JobPlanTest, ExpectsRowsOfSparseTables) {
  const auto plan = PlanOf(Job(
      "model { deep_fm { embedding_dim: 7 } } data { synthetic_clicks { examples: 100000 "
      "fields: 4 cardinality: 1 } } optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 64 "
      "workers: 2 update { dense: ALL_REDUCE sparse: ALL_REDUCE }"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  // One value each: four keys with rows of eight floats, to the one other worker.
  EXPECT_EQ(plan->traffic[1].rows_sent, 4 * (8 + 32));
  EXPECT_EQ(plan->traffic[0].rows_sent, 4 * (8 + 8 + 32));
  EXPECT_EQ(plan->traffic[0].rows_received, 4 * 32);
}

TEST(JobPlanTest, RefusesWhatCannotBePlannedByName) {
  EXPECT_THAT(std::string(PlanOf(v1::JobSpec()).status().message()), HasSubstr("model is left"));
  v1::JobSpec spec = Gpt();
  spec.set_batch_size(0);
  EXPECT_THAT(std::string(PlanOf(spec).status().message()), HasSubstr("batch_size"));
  spec = Gpt();
  spec.mutable_model()->mutable_transformer()->set_heads(3);
  EXPECT_THAT(std::string(PlanOf(spec).status().message()), HasSubstr("heads is 3"));
  spec = Gpt();
  spec.mutable_optimizer()->set_name("adman");
  EXPECT_THAT(std::string(PlanOf(spec).status().message()), HasSubstr("adman"));
}

TEST(PlanOutputTest, SaysItInTables) {
  const auto plan = PlanOf(Gpt("workers: 2"));
  const std::string text = PlanText(*plan);
  EXPECT_THAT(text, HasSubstr("g: transformer, "));
  EXPECT_THAT(text, HasSubstr("activations kept"));
  EXPECT_THAT(text, HasSubstr("selective"));
  EXPECT_THAT(text, HasSubstr("stage 3"));
  EXPECT_THAT(text, HasSubstr("6 N + 6 L C T"));
  EXPECT_THAT(text, HasSubstr("all-reduce"));
  EXPECT_THAT(text, Not(HasSubstr("Taken for granted")));
}

TEST(PlanOutputTest, SaysItInJson) {
  const auto plan = PlanOf(Gpt("workers: 2 compute { recompute: FULL }"));
  const auto json = nlohmann::json::parse(PlanJson(*plan));
  EXPECT_EQ(json["worker_bytes"], plan->memory.worker_bytes());
  uint64_t sum = 0;
  for (const auto& part : json["worker_parts"]) sum += part.get<uint64_t>();
  EXPECT_EQ(sum, plan->memory.worker_bytes());
  EXPECT_EQ(json["recompute"][2]["worker_bytes"], plan->memory.worker_bytes());
  EXPECT_EQ(json["zero"].size(), 4u);
  EXPECT_EQ(json["traffic_per_step_and_worker"][1]["road"], "all-reduce");
  EXPECT_GT(json["recomputed_flops_per_item"], 0);
}

}  // namespace
}  // namespace muster
