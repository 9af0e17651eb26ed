#include "client/plan/pipeline_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/plan/pipeline_drawing.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A perceptron of so many equal layers. Each has two rows in a micro-batch.
v1::JobSpec Perceptron(int layers, const std::string& more) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("name: 'p' model { mlp { classes: 8 } } data { holdout: 0.2 "
                   "synthetic_classification { examples: 100 features: 8 classes: 8 } } "
                   "optimizer { name: 'sgd' learning_rate: 0.1 } stop { steps: 10 } "
                   "update { dense: ALL_REDUCE } ",
                   more),
      &spec));
  for (int layer = 1; layer < layers; ++layer) spec.mutable_model()->mutable_mlp()->add_hidden(8);
  return spec;
}

v1::JobSpec TwoStages(const std::string& more = "") {
  return Perceptron(
      4, absl::StrCat("workers: 2 batch_size: 8 micro_batches: 4 parallelism { pipeline: 2 ", more,
                      " }"));
}

absl::StatusOr<PipelinePlan> PipelinePlanOf(const v1::JobSpec& spec) {
  return PlanPipeline(spec, SizeOfData(spec.data()));
}

TEST(PipelinePlanTest, DrawsAsManyColumnsAsAStepHasPasses) {
  const std::string text = PipelineText(*PipelinePlanOf(TwoStages()));
  EXPECT_THAT(text, HasSubstr("p: ONE_F_ONE_B, 2 stages, 4 micro-batches\n"));
  EXPECT_THAT(text, HasSubstr("stage 0  01  aa2bb3cc dd\nstage 1   0aa1bb2cc3dd\n"));
  EXPECT_THAT(text,
              HasSubstr("Stages wait for 25.0 % of the time they compute; with as much to do for "
                        "all\nstages it would be 25.0 %."));
  EXPECT_THAT(PipelineText(*PipelinePlanOf(TwoStages("pipeline_schedule: ZERO_BUBBLE"))),
              HasSubstr("stage 0  01 aA2bB3cCdD\nstage 1   0a1bA2cB3dCD\n"));
}

TEST(PipelinePlanTest, SaysWhatEachStageHas) {
  const PipelinePlan plan = *PipelinePlanOf(TwoStages());
  ASSERT_EQ(plan.stages.size(), 2u);
  for (const PlannedStage& stage : plan.stages) {
    EXPECT_THAT(stage.layers, ElementsAre(2));
    // Four micro-batches of two rows through two products of 8 x 8, each three times.
    EXPECT_EQ(stage.operations, 4 * 2 * 2 * 3 * 2 * 64);
    EXPECT_DOUBLE_EQ(stage.busy, 12.0 / 15);
    // Weights and gradients of two matrices with their biases.
    EXPECT_EQ(stage.state_bytes, 2 * 8 * (64 + 8));
    // Two rows of eight floats, four times, one way.
    EXPECT_EQ(stage.sent_bytes, 4 * 2 * 8 * 4);
  }
  EXPECT_EQ(plan.stages[0].holdings.saved, 2);
  EXPECT_EQ(plan.stages[1].holdings.saved, 1);
  // Two rows of eight floats of each of two layers.
  EXPECT_EQ(plan.stages[0].activation_bytes, 2 * 2 * 2 * 8 * 4);
  EXPECT_EQ(plan.stages[1].activation_bytes, 2 * 2 * 8 * 4);
}

TEST(PipelinePlanTest, UnevenStagesWaitForTheSlowest) {
  const PipelinePlan plan = *PipelinePlanOf(TwoStages("pipeline_layers: [1, 3]"));
  EXPECT_THAT(plan.stages[0].layers, ElementsAre(1));
  EXPECT_GT(plan.bubble(), 2 * plan.uniform_bubble());
  EXPECT_DOUBLE_EQ(plan.uniform_bubble(), 0.25);
}

TEST(PipelinePlanTest, ManyPassesFitIntoEightyColumns) {
  const v1::JobSpec spec =
      Perceptron(32,
                 "workers: 16 batch_size: 64 micro_batches: 64 parallelism { pipeline: 16 "
                 "pipeline_schedule: INTERLEAVED }");
  const PipelinePlan plan = *PipelinePlanOf(spec);
  EXPECT_THAT(plan.stages[3].layers, ElementsAre(1, 1));
  EXPECT_DOUBLE_EQ(plan.bubble(), 15.0 / 128);
  const std::string text = PipelineText(plan);
  const std::string zero_bubble =
      PipelineText(*PipelinePlanOf(TwoStages("pipeline_schedule: ZERO_BUBBLE")));
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(absl::StrCat(text, zero_bubble), '\n'))) {
    EXPECT_LE(line.size(), 80u) << line;
  }
  EXPECT_THAT(text, HasSubstr("16 stages of 2 chunks, 64 micro-batches"));
  EXPECT_THAT(text, HasSubstr("--out draws all"));
}

TEST(PipelinePlanTest, JsonAndSvgHaveEveryPass) {
  const PipelinePlan plan = *PipelinePlanOf(TwoStages("pipeline_schedule: ZERO_BUBBLE"));
  const nlohmann::json json = nlohmann::json::parse(PipelineJson(plan));
  ASSERT_EQ(json["stages"].size(), 2u);
  EXPECT_EQ(json["stages"][0]["passes"].size(), 12u);
  EXPECT_EQ(json["stages"][1]["saved_micro_batches"], 2);
  EXPECT_EQ(json["stages"][1]["activations_in_flight"], 1);
  const std::string svg = PipelineSvg(plan);
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(svg, "<title>")).size(), 1 + 2 * 12u);
  EXPECT_THAT(svg, HasSubstr("<title>backward of weights, micro-batch 3, chunk 0</title>"));
  EXPECT_THAT(svg, HasSubstr("backward of weights</tspan>"));
  EXPECT_THAT(PipelineSvg(*PipelinePlanOf(TwoStages())), Not(HasSubstr("of weights")));
}

TEST(PipelinePlanTest, JobsThatNoPipelineCanTrainAreRefused) {
  const struct {
    v1::JobSpec spec;
    std::string error;
  } cases[] = {
      {Perceptron(4, "workers: 2 batch_size: 8"), "parallelism.pipeline is 1, so the job has no"},
      {Perceptron(4, "workers: 3 batch_size: 8 parallelism { pipeline: 2 }"),
       "must divide the number of workers, which is 3"},
      {TwoStages("pipeline_chunks: 2"), "parallelism.pipeline_chunks is 2"},
      {Perceptron(4, "workers: 2 batch_size: 2 micro_batches: 4 parallelism { pipeline: 2 }"),
       "micro_batches is 4; a data rank's share"},
      {Perceptron(4,
                  "workers: 2 batch_size: 20000 micro_batches: 20000 parallelism { pipeline: 2 }"),
       "a step of this job has 120000 passes"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(std::string(PipelinePlanOf(one.spec).status().message()), HasSubstr(one.error));
  }
}

}  // namespace
}  // namespace muster
