// Memory of the stages of a pipeline.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/compute/activation_layout.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/memory/plan_jobs_for_testing.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/plan/ranks/planned_stages.h"
#include "common/plan/ranks/rank_size.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/model_size.h"
#include "common/step/stage_schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Embedding and three blocks on the first stage, three blocks and the head on the other; a sequence
// in each of eight micro-batches.
v1::JobSpec TwoStages(const std::string& schedule, const std::string& model = "",
                      const std::string& more = "") {
  return Job(absl::StrCat(
      "model { transformer { layers: 6 width: 384 heads: 6 context: 256 ", model, " } } ",
      "data { sequences { path: 't' } } optimizer { name: 'adamw' learning_rate: 0.1 } ",
      "update { dense: ALL_REDUCE sparse: ALL_REDUCE } batch_size: 8 micro_batches: 8 workers: 2 ",
      "parallelism { pipeline: 2 pipeline_layers: [4, 4] pipeline_schedule: ", schedule, " } ",
      more));
}

std::vector<MemoryPlan> StagesOf(const v1::JobSpec& spec) {
  return PlanMemoryOfStages(spec, SizeOfData(spec.data()));
}

uint64_t SumOver(const std::vector<MemoryPlan>& stages, const std::string& part) {
  uint64_t sum = 0;
  for (const MemoryPlan& stage : stages) sum += ByName(stage.worker)[part];
  return sum;
}

// What one sequence keeps in three blocks.
uint64_t KeptOfThreeBlocks(const v1::JobSpec& spec, bool split) {
  const ModelSize model = SizeOfModel(spec, SizeOfData(spec.data()));
  ActivationRequest request = ActivationRequestOf(*model.transformer, 1, spec.compute());
  request.layers = 3;
  request.split_backward = split;
  return ActivationLayout(request).bytes().kept;
}

TEST(StageMemoryTest, StagesShareOutTheStates) {
  const v1::JobSpec separate = TwoStages("ONE_F_ONE_B", "separate_head: true");
  const uint64_t whole = SizeOfModel(separate, SizeOfData(separate.data())).dense();
  const std::vector<MemoryPlan> stages = StagesOf(separate);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].parameters + stages[1].parameters, whole);
  EXPECT_EQ(SumOver(stages, "parameters"), 4 * whole);
  EXPECT_EQ(SumOver(stages, "gradients"), 4 * whole);
  EXPECT_EQ(SumOver(stages, "optimizer state"), 8 * whole);
}

TEST(StageMemoryTest, ATiedHeadIsThereTwice) {
  const v1::JobSpec tied = TwoStages("ONE_F_ONE_B");
  const uint64_t whole = SizeOfModel(tied, SizeOfData(tied.data())).dense();
  const std::vector<MemoryPlan> stages = StagesOf(tied);
  EXPECT_EQ(stages[0].parameters + stages[1].parameters, whole + 256 * 384);
  EXPECT_EQ(SumOver(stages, "optimizer state"), 8 * (whole + 256 * 384));
}

TEST(StageMemoryTest, AScheduleSaysHowManyMicroBatchesAreKept) {
  const auto sets = [](const std::string& schedule) {
    const v1::JobSpec spec = TwoStages(schedule);
    const uint64_t each = KeptOfThreeBlocks(spec, schedule == "ZERO_BUBBLE");
    std::vector<uint64_t> sets;
    for (const MemoryPlan& stage : StagesOf(spec)) {
      const uint64_t kept = ByName(stage.worker)["activations kept"];
      EXPECT_EQ(kept % each, 0u);
      sets.push_back(kept / each);
    }
    return sets;
  };
  EXPECT_THAT(sets("GPIPE"), ElementsAre(8, 8));
  EXPECT_THAT(sets("ONE_F_ONE_B"), ElementsAre(2, 1));
  EXPECT_THAT(sets("ZERO_BUBBLE"), ElementsAre(2, 2));
}

TEST(StageMemoryTest, OnlyTheLastStageHasLogits) {
  const std::vector<MemoryPlan> stages = StagesOf(TwoStages("GPIPE"));
  EXPECT_EQ(ByName(stages[0].worker)["logits"], 0u);
  // As wide as the bytes' values.
  EXPECT_EQ(ByName(stages[1].worker)["logits"], 8 * 256 * 256 * 4u);
}

TEST(StageMemoryTest, ThePlanIsThatOfTheStageThatNeedsTheMost) {
  const v1::JobSpec spec = TwoStages("ONE_F_ONE_B");
  const std::vector<MemoryPlan> stages = StagesOf(spec);
  ASSERT_NE(stages[0].worker_own_bytes(), stages[1].worker_own_bytes());
  EXPECT_EQ(PlanOf(spec).worker_own_bytes(),
            std::max(stages[0].worker_own_bytes(), stages[1].worker_own_bytes()));
}

TEST(StageMemoryTest, MessagesHaveMemoryOfTheirOwn) {
  const auto bytes = [](const v1::JobSpec& spec) {
    return SumOver(StagesOf(spec), "messages with other stages") / 2;
  };
  // Of two stages one receives outputs, the other gradients, one at a time; two are sent. Each is
  // of 256 tokens of 384 floats.
  EXPECT_EQ(bytes(TwoStages("ONE_F_ONE_B")), 3 * 256 * 384 * 4);
  EXPECT_EQ(bytes(TwoStages("ONE_F_ONE_B", "", "compute { type: BF16 }")), 3 * 256 * 384 * 2);
  v1::JobSpec chunks = TwoStages("INTERLEAVED");
  chunks.mutable_parallelism()->clear_pipeline_layers();
  EXPECT_EQ(bytes(chunks), (2 + 2 + 2) * 256 * 384 * 4);
  // An evaluation hands on four sequences at once.
  v1::JobSpec evaluated = TwoStages("ONE_F_ONE_B");
  evaluated.mutable_data()->set_holdout(0.5);
  EXPECT_EQ(bytes(evaluated), 3 * 4 * 256 * 384 * 4);
}

TEST(StageMemoryTest, StagesMapTheMessagesOfAllOthers) {
  v1::JobSpec spec = TwoStages("ONE_F_ONE_B", "separate_head: true");
  spec.set_workers(4);
  spec.mutable_parallelism()->set_pipeline(4);
  spec.mutable_parallelism()->clear_pipeline_layers();
  const std::vector<MemoryPlan> stages = StagesOf(spec);
  ASSERT_EQ(stages.size(), 4u);
  for (size_t stage = 0; stage < 4; ++stage) {
    std::map<std::string, uint64_t> parts = ByName(stages[stage].worker);
    EXPECT_EQ(parts["other stages' messages, if on one machine"],
              3 * parts["messages with other stages"]);
  }
}

// On servers the stage that pushes the gradient receives what the other adds to it.
TEST(StageMemoryTest, AStageReceivesTheGradientOfATiedHead) {
  v1::JobSpec spec = TwoStages("ONE_F_ONE_B");
  spec.clear_update();
  EXPECT_EQ(ByName(StagesOf(spec)[0].worker)["gradients of another stage"], 4 * 256 * 384);
  EXPECT_EQ(ByName(StagesOf(spec)[1].worker)["gradients of another stage"], 0u);
}

// A plan looks at a bounded number of micro-batches.
TEST(StageMemoryTest, MoreMicroBatchesReceiveNoMoreMessages) {
  for (const StageOrder order : {StageOrder::kGPipe, StageOrder::kOneForwardOneBackward,
                                 StageOrder::kInterleaved, StageOrder::kZeroBubble}) {
    for (const int stages : {2, 3, 4, 8}) {
      const int chunks = order == StageOrder::kInterleaved ? 2 : 1;
      for (const int rounds : {1, 2, 9, 16}) {
        const StageShape shape = {
            .order = order, .stages = stages, .chunks = chunks, .micro_batches = rounds * stages};
        int most = 0;
        for (const std::vector<StepAction>& stage : StageSchedules(shape)) {
          const StageHoldings holdings = HoldingsOf(stage);
          most = std::max(most, holdings.received_activations + holdings.received_gradients);
        }
        EXPECT_EQ(ReceivedMessages(shape), most) << stages << " stages, " << rounds << " rounds";
      }
    }
  }
}

TEST(StageMemoryTest, ZeroDividesEachStage) {
  v1::JobSpec spec = TwoStages("ONE_F_ONE_B", "separate_head: true");
  spec.set_workers(4);
  const uint64_t whole = SumOver(StagesOf(spec), "optimizer state");
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  const uint64_t halves = SumOver(StagesOf(spec), "slice of optimizer state");
  EXPECT_NEAR(static_cast<double>(halves), whole / 2, 0.001 * whole);
}

// Its places have room for two blocks, whatever else the stage has.
TEST(StageMemoryTest, AStageHasItsOwnUnitsInFlight) {
  v1::JobSpec spec = TwoStages("ONE_F_ONE_B", "separate_head: true");
  spec.set_workers(4);
  spec.mutable_parallelism()->mutable_zero()->set_stage(3);
  constexpr double kTwoBlocks = 2 * 4 * (12 * 384 * 384 + 13 * 384);
  for (const MemoryPlan& stage : StagesOf(spec)) {
    std::map<std::string, uint64_t> parts = ByName(stage.worker);
    for (const char* name :
         {"gathered parameters of units in flight", "gradients of units in flight"}) {
      EXPECT_NEAR(static_cast<double>(parts[name]), kTwoBlocks, 0.01 * kTwoBlocks) << name;
    }
    EXPECT_EQ(parts.count("gathered parameters") + parts.count("parameters"), 0u);
  }
}

TEST(StageMemoryTest, APerceptronsStageHasWhatItReceives) {
  const v1::JobSpec spec =
      Job("model { mlp { hidden: [8, 8, 8] classes: 4 } } data { synthetic_classification { "
          "examples: 100 features: 8 classes: 4 } } optimizer { name: 'sgd' learning_rate: 0.1 } "
          "update { dense: ALL_REDUCE } batch_size: 8 micro_batches: 4 workers: 2 "
          "parallelism { pipeline: 2 pipeline_layers: [1, 3] }");
  const std::vector<MemoryPlan> stages = StagesOf(spec);
  // Two micro-batches of two rows: outputs and their gradients.
  EXPECT_EQ(ByName(stages[0].worker)["activations"], 2 * 2 * (8 + 8) * 4u);
  // One: the first layer's, and those of its own; the logits' gradients take their place.
  EXPECT_EQ(ByName(stages[1].worker)["activations"], 2 * (8 + 8 + 8 + 8 + 8 + 8 + 4) * 4u);
}

}  // namespace
}  // namespace muster
