// Jobs whose layers are made of experts train as one process does, on every mesh and either road.
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/expected_traffic.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

class ExpertTrainingTest : public ::testing::Test {
 protected:
  // Returns the job with 8 experts on so many data ranks, which share them out.
  v1::JobSpec JobOfExpertRanks(uint32_t data, uint32_t expert, uint32_t stage = 0) {
    v1::JobSpec spec = OnMesh(ByAllReduce(Job()), 1, data, stage);
    spec.mutable_model()->mutable_transformer()->mutable_moe()->set_experts(8);
    spec.mutable_parallelism()->set_expert(expert);
    return spec;
  }

  // Returns TensorJob with experts, in 8 steps of two micro-batches with clipping.
  v1::JobSpec Job() {
    v1::JobSpec spec = TensorJob(TensorShape::kExperts, folder_);
    // Divided by two chunks of each of 2 or 3 context ranks.
    spec.mutable_model()->mutable_transformer()->set_context(24);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    spec.set_micro_batches(2);
    spec.mutable_stop()->set_steps(8);
    return spec;
  }

  const TempFolder folder_;
};

// A mesh, and a road.
struct ExpertWay {
  uint32_t tensor = 1;
  uint32_t data = 1;
  uint32_t context = 1;
  uint32_t pipeline = 1;
  uint32_t stage = 0;
  bool by_all_reduce = true;
  bool sequence = true;
  uint32_t expert = 1;
  // Data ranks of a shard group; 0: all.
  uint32_t shard = 0;
};

std::string NameOfExpertWay(const ::testing::TestParamInfo<ExpertWay>& info) {
  const ExpertWay& way = info.param;
  return absl::StrCat("tensor", way.tensor, "_data", way.data, "_context", way.context, "_pipeline",
                      way.pipeline, "_stage", way.stage, way.by_all_reduce ? "" : "_servers",
                      way.sequence ? "" : "_whole_rows",
                      way.expert > 1 ? absl::StrCat("_expert", way.expert) : "",
                      way.shard > 0 ? absl::StrCat("_shard", way.shard) : "");
}

class EveryExpertMeshTest : public ExpertTrainingTest,
                            public ::testing::WithParamInterface<ExpertWay> {
 protected:
  v1::JobSpec JobToDivide() {
    v1::JobSpec spec = Job();
    v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
    // Otherwise of a number that nothing divides.
    if (GetParam().expert > 1) moe.set_experts(8);
    return spec;
  }
  static v1::JobSpec Divided(v1::JobSpec spec) {
    const ExpertWay& way = GetParam();
    if (way.by_all_reduce) spec = ByAllReduce(spec);
    spec = OnMesh(spec, way.tensor, way.data, way.stage, way.shard);
    if (way.expert > 1) spec.mutable_parallelism()->set_expert(way.expert);
    if (!way.sequence) spec = WithoutSequence(spec);
    if (way.context > 1) spec = InContext(spec, way.context);
    return way.pipeline > 1 ? InPipeline(spec, way.pipeline,
                                         way.stage == 0 ? v1::ParallelismSpec::ZERO_BUBBLE
                                                        : v1::ParallelismSpec::ONE_F_ONE_B)
                            : spec;
  }
  static TrainedValues Values(const v1::JobSpec& spec) {
    return GetParam().by_all_reduce ? ValuesByAllReduce(spec) : ValuesOnServers(spec);
  }
};

TEST_P(EveryExpertMeshTest, TrainsAsOneProcess) {
  const v1::JobSpec spec = JobToDivide();
  ExpectClose(Values(Divided(spec)), TrainLocally(spec), 1e-5);
}

TEST_P(EveryExpertMeshTest, GradientsAreThoseOfOneProcess) {
  const v1::JobSpec spec = ForGradients(JobToDivide());
  ExpectClose(Values(Divided(spec)), TrainLocally(spec), 1e-5);
}

TEST_P(EveryExpertMeshTest, BytesAreThosePredicted) {
  v1::JobSpec spec = JobToDivide();
  spec.mutable_stop()->set_steps(2);
  ExpectPredictedTraffic(Divided(spec));
}

// Any two of the axes, stages of ZeRO and roads that may meet do.
INSTANTIATE_TEST_SUITE_P(
    ExpertTraining, EveryExpertMeshTest,
    ::testing::Values(
        ExpertWay{.data = 2}, ExpertWay{.data = 2, .by_all_reduce = false},
        ExpertWay{.data = 4, .stage = 1}, ExpertWay{.data = 2, .stage = 3},
        ExpertWay{.tensor = 2, .data = 2, .stage = 2},
        ExpertWay{.tensor = 2, .context = 2, .stage = 3}, ExpertWay{.tensor = 4, .sequence = false},
        ExpertWay{.data = 2, .context = 2, .stage = 1}, ExpertWay{.context = 3, .stage = 2},
        ExpertWay{.data = 2, .pipeline = 2}, ExpertWay{.tensor = 2, .pipeline = 2, .stage = 0},
        ExpertWay{.data = 2, .pipeline = 2, .stage = 1}, ExpertWay{.context = 2, .pipeline = 2},
        ExpertWay{.tensor = 2, .data = 2, .by_all_reduce = false},
        ExpertWay{.context = 2, .by_all_reduce = false},
        ExpertWay{.data = 2, .stage = 3, .by_all_reduce = false},
        ExpertWay{.pipeline = 2, .by_all_reduce = false},
        // Experts are shared out by all data ranks or some, by context ranks, or by both; they are
        // copied, divided further, or neither.
        ExpertWay{.data = 2, .expert = 2}, ExpertWay{.data = 4, .expert = 2},
        ExpertWay{.data = 4, .expert = 4}, ExpertWay{.data = 2, .stage = 1, .expert = 2},
        ExpertWay{.data = 4, .stage = 2, .expert = 2},
        ExpertWay{.data = 4, .stage = 3, .expert = 2},
        ExpertWay{.data = 4, .stage = 3, .expert = 4, .shard = 2},
        ExpertWay{.data = 4, .stage = 2, .expert = 2, .shard = 2},
        ExpertWay{.data = 2, .context = 2, .expert = 2},
        ExpertWay{.data = 2, .context = 2, .stage = 3, .expert = 4},
        ExpertWay{.data = 2, .context = 4, .stage = 2, .expert = 8},
        ExpertWay{.tensor = 2, .data = 2, .expert = 2},
        ExpertWay{.tensor = 2, .data = 2, .stage = 1, .sequence = false, .expert = 2},
        ExpertWay{.data = 2, .pipeline = 2, .expert = 2},
        ExpertWay{.data = 2, .pipeline = 2, .stage = 2, .expert = 2},
        ExpertWay{.data = 4, .by_all_reduce = false, .expert = 2},
        ExpertWay{.data = 2, .stage = 3, .by_all_reduce = false, .expert = 2},
        ExpertWay{.context = 4, .by_all_reduce = false, .expert = 2},
        ExpertWay{.data = 2, .context = 2, .stage = 3, .by_all_reduce = false, .expert = 4},
        ExpertWay{.data = 2, .context = 4, .by_all_reduce = false, .expert = 8},
        ExpertWay{.tensor = 2, .data = 2, .by_all_reduce = false, .expert = 2},
        ExpertWay{.data = 2, .pipeline = 2, .by_all_reduce = false, .expert = 2},
        ExpertWay{.tensor = 2,
                  .context = 2,
                  .pipeline = 2,
                  .stage = 3,
                  .by_all_reduce = false,
                  .sequence = false,
                  .expert = 2}),
    NameOfExpertWay);

// All ranks together count what one process counts.
class EveryCountingMeshTest : public EveryExpertMeshTest {
 protected:
  v1::JobSpec CountingJob() {
    v1::JobSpec spec = JobToDivide();
    v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
    moe.set_auxiliary_scope(v1::MoeSpec::GLOBAL_BATCH);
    moe.set_auxiliary_loss(1);
    spec.clear_micro_batches();
    return spec;
  }
};

TEST_P(EveryCountingMeshTest, TrainsAsOneProcess) {
  const v1::JobSpec spec = CountingJob();
  ExpectClose(Values(Divided(spec)), TrainLocally(spec), 1e-5);
}

TEST_P(EveryCountingMeshTest, BytesAreThosePredicted) {
  v1::JobSpec spec = CountingJob();
  spec.set_micro_batches(2);
  spec.mutable_stop()->set_steps(2);
  ExpectPredictedTraffic(Divided(spec));
}

// An expert's limit is that of all ranks' choices, of which the last are dropped.
TEST_P(EveryCountingMeshTest, DropsAsOneProcess) {
  v1::JobSpec spec = CountingJob();
  v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
  moe.clear_auxiliary_scope();
  for (const float capacity : {1.0f, 0.3f}) {
    moe.set_capacity_factor(capacity);
    const TrainedValues expected = TrainLocally(spec);
    ExpectClose(Values(Divided(spec)), expected, 1e-5);
    v1::JobSpec all = spec;
    all.mutable_model()->mutable_transformer()->mutable_moe()->clear_capacity_factor();
    EXPECT_NE(TrainLocally(all).values, expected.values) << "none is dropped";
  }
}

TEST_P(EveryCountingMeshTest, BytesOfLimitsAreThosePredicted) {
  v1::JobSpec spec = CountingJob();
  spec.mutable_model()->mutable_transformer()->mutable_moe()->set_capacity_factor(1.25f);
  spec.set_micro_batches(2);
  spec.mutable_stop()->set_steps(2);
  ExpectPredictedTraffic(Divided(spec));
}

INSTANTIATE_TEST_SUITE_P(
    ExpertTraining, EveryCountingMeshTest,
    ::testing::Values(ExpertWay{.data = 2}, ExpertWay{.data = 3, .stage = 1},
                      ExpertWay{.data = 4, .stage = 2, .shard = 2},
                      ExpertWay{.data = 2, .stage = 3}, ExpertWay{.tensor = 2, .data = 2},
                      ExpertWay{.data = 2, .context = 2}, ExpertWay{.context = 2},
                      ExpertWay{.data = 2, .pipeline = 2},
                      ExpertWay{.data = 4, .stage = 2, .expert = 2},
                      ExpertWay{.tensor = 2, .data = 2, .context = 2, .stage = 1, .expert = 2},
                      ExpertWay{.data = 2, .by_all_reduce = false},
                      ExpertWay{.data = 2, .context = 2, .stage = 3, .by_all_reduce = false},
                      ExpertWay{.tensor = 2, .data = 2, .by_all_reduce = false, .expert = 2}),
    NameOfExpertWay);

// Otherwise data ranks count apart, and the loss's gradient is another one.
TEST_F(ExpertTrainingTest, CountsOfAllDataRanksAreNotThoseOfEach) {
  v1::JobSpec spec = ByAllReduce(Job());
  spec.clear_micro_batches();
  v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
  moe.set_auxiliary_scope(v1::MoeSpec::MICRO_BATCH);
  moe.set_auxiliary_loss(1);
  const TrainedValues apart = ValuesByAllReduce(OnMesh(spec, 1, 2));
  moe.set_auxiliary_scope(v1::MoeSpec::GLOBAL_BATCH);
  EXPECT_NE(ValuesByAllReduce(OnMesh(spec, 1, 2)).values, apart.values);
}

TEST_F(ExpertTrainingTest, DroppedChoicesAreDroppedAgainByRecomputation) {
  v1::JobSpec spec = OnMesh(ByAllReduce(Job()), 2, 2, 2);
  spec.mutable_model()->mutable_transformer()->mutable_moe()->set_capacity_factor(0.75f);
  const TrainedValues expected = ValuesByAllReduce(spec);
  for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    spec.mutable_compute()->set_recompute(recompute);
    EXPECT_EQ(ValuesByAllReduce(spec).values, expected.values) << recompute;
    ExpectPredictedTraffic(spec);
  }
}

// So they are those of one process, however many examples go at a time.
TEST_F(ExpertTrainingTest, EvaluationsDropNothing) {
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(1);
  spec.mutable_optimizer()->set_learning_rate(1e-12);
  spec.clear_schedule();
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(1);
  v1::JobSpec one = ByAllReduce(spec);
  one.set_workers(1);
  const RunResult all = TrainByAllReduce(one, {});
  one.mutable_model()->mutable_transformer()->mutable_moe()->set_capacity_factor(0.2f);
  ASSERT_GT(all.evaluated, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectEvaluationsOf(all, TrainByAllReduce(one, {})));
}

TEST_F(ExpertTrainingTest, StagesEndInTheSameBits) {
  v1::JobSpec spec = ByAllReduce(Job());
  spec.clear_micro_batches();
  const TrainedValues whole = ValuesByAllReduce(OnMesh(spec, 1, 3));
  for (const uint32_t stage : {1, 2, 3}) {
    EXPECT_EQ(ValuesByAllReduce(OnMesh(spec, 1, 3, stage)).values, whole.values) << stage;
  }
}

TEST_F(ExpertTrainingTest, RecomputedActivationsEndInTheSameBits) {
  v1::JobSpec spec = OnMesh(ByAllReduce(Job()), 2, 2, 2);
  const TrainedValues expected = ValuesByAllReduce(spec);
  for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    spec.mutable_compute()->set_recompute(recompute);
    EXPECT_EQ(ValuesByAllReduce(spec).values, expected.values) << recompute;
    ExpectPredictedTraffic(spec);
  }
}

// Every step moves each bias by its rate, whatever clips and steps the weights.
TEST_F(ExpertTrainingTest, BiasesMoveByTheirRate) {
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(3);
  spec.mutable_clipping()->set_by_global_norm(1e-6);
  spec.mutable_optimizer()->set_learning_rate(1e-9);
  const std::map<std::string, std::vector<float>> values = TrainLocally(spec).values;
  double moved = 0;
  for (const auto& [name, bias] : values) {
    if (!absl::EndsWith(name, "router.bias")) continue;
    for (const float value : bias) {
      const double steps = value / 0.01;
      EXPECT_NEAR(steps, std::round(steps), 1e-3);
      EXPECT_LE(std::abs(steps), 3.001);
      moved += std::abs(steps);
    }
  }
  EXPECT_GT(moved, 0);
}

TEST_F(ExpertTrainingTest, EvaluationsMoveNoBias) {
  v1::JobSpec spec = Job();
  spec.mutable_data()->set_holdout(0.2);
  const TrainedValues expected = TrainLocally(spec);
  spec.mutable_evaluation()->set_every_steps(1);
  EXPECT_EQ(TrainLocally(spec).values, expected.values);
}

TEST_F(ExpertTrainingTest, FiftyStepsOfSgdStayTogether) {
  v1::JobSpec spec = Job();
  spec.clear_optimizer();
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(0.05);
  spec.clear_clipping();
  spec.mutable_stop()->set_steps(50);
  const TrainedValues expected = TrainLocally(spec);
  const v1::JobSpec by_all_reduce = ByAllReduce(spec);
  ExpectClose(ValuesByAllReduce(OnMesh(by_all_reduce, 1, 4, 1)), expected, 1e-5);
  ExpectClose(ValuesByAllReduce(InContext(OnMesh(by_all_reduce, 2, 1), 2)), expected, 1e-5);
  ExpectClose(ValuesOnServers(OnMesh(spec, 1, 2)), expected, 1e-5);
}

TEST_F(ExpertTrainingTest, ExpertRanksStayTogetherForFiftySteps) {
  v1::JobSpec spec = JobOfExpertRanks(4, 2, 2);
  spec.clear_optimizer();
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(0.05);
  spec.clear_clipping();
  spec.mutable_stop()->set_steps(50);
  v1::JobSpec one = spec;
  one.clear_parallelism();
  ExpectClose(ValuesByAllReduce(spec), TrainLocally(one), 1e-5);
}

TEST_F(ExpertTrainingTest, ExpertRanksRecomputeTheSameBits) {
  v1::JobSpec spec = JobOfExpertRanks(4, 2, 1);
  const TrainedValues expected = ValuesByAllReduce(spec);
  for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    spec.mutable_compute()->set_recompute(recompute);
    EXPECT_EQ(ValuesByAllReduce(spec).values, expected.values) << recompute;
  }
}

// Whichever half of backward makes the gradients of weights.
TEST_F(ExpertTrainingTest, ExpertRanksMakeTheSameStepsUnderZeroBubble) {
  for (const uint32_t stage : {0, 1}) {
    v1::JobSpec spec = JobOfExpertRanks(2, 2, stage);
    // Most tokens may go to one expert, whose rank then takes them in several rounds.
    v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
    moe.set_experts(2);
    moe.set_top_k(1);
    moe.clear_selection_bias();
    moe.clear_bias_rate();
    spec.set_micro_batches(4);
    const TrainedValues expected =
        ValuesByAllReduce(InPipeline(spec, 2, v1::ParallelismSpec::ONE_F_ONE_B));
    spec = InPipeline(spec, 2, v1::ParallelismSpec::ZERO_BUBBLE);
    for (const auto recompute :
         {v1::ComputeSpec::NONE, v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
      spec.mutable_compute()->set_recompute(recompute);
      EXPECT_EQ(ValuesByAllReduce(spec).values, expected.values) << stage << " " << recompute;
      ExpectPredictedTraffic(spec);
    }
  }
}

// Such steps are left out by all, whichever rank's experts overflow.
TEST_F(ExpertTrainingTest, ExpertRanksLeaveOutTheSameSteps) {
  const v1::JobSpec spec = InFloat16(JobOfExpertRanks(2, 2), 10);
  const RunResult run = TrainByAllReduce(spec, {});
  EXPECT_FALSE(StepsLeftOut(spec, run).empty());
}

// Gradients of experts, and of everything else, travel in 16 bits, by buckets and by slices.
TEST_F(ExpertTrainingTest, ExpertRanksSumGradientsOf16Bits) {
  for (const uint32_t stage : {0, 2}) {
    v1::JobSpec spec = ForGradients(JobOfExpertRanks(4, 2, stage));
    v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
    moe.clear_selection_bias();
    moe.clear_bias_rate();
    const TrainedValues expected = ValuesByAllReduce(spec);
    spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
    const TrainedValues rounded = ValuesByAllReduce(spec);
    ExpectClose(rounded, expected, 1e-2);
    EXPECT_NE(rounded.values, expected.values);
  }
}

TEST_F(ExpertTrainingTest, ALostExpertRankTakesACopyOfItsExperts) {
  // Ranks 1 and 3 have the same experts; with redundancy one rank keeps a copy of another's.
  v1::JobSpec redundant = JobOfExpertRanks(2, 2, 2);
  redundant.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  for (const v1::JobSpec& spec : {JobOfExpertRanks(4, 2), redundant}) {
    const TrainedValues expected = ValuesByAllReduce(spec);
    for (const HookCall& at : {HookCall{Hook::kAcquire, 3, 2}, HookCall{Hook::kGradientReady, 4, 3},
                               HookCall{Hook::kEndStep, 5, 1}}) {
      ExpectLossIsRepaired(spec, {/*slot=*/1, at, /*takes_effect=*/true}, expected);
    }
  }
}

// Optimizer state of experts is divided otherwise than that of everything else, in files, too; a
// checkpoint goes on in memory.
TEST_F(ExpertTrainingTest, ExpertRanksOffloadOptimizerState) {
  for (const uint32_t stage : {1, 3}) {
    v1::JobSpec spec = JobOfExpertRanks(4, 2, stage);
    spec.mutable_checkpoint()->set_every_steps(4);
    const TrainedValues expected = ValuesByAllReduce(spec);
    v1::JobSpec offloads = spec;
    offloads.mutable_parallelism()->mutable_zero()->set_offload(v1::ZeroSpec::OPTIMIZER_STATE);
    RunCheckpoints checkpoints;
    RunOptions options;
    options.checkpoints = &checkpoints;
    EXPECT_EQ(ValuesByAllReduce(offloads, options).values, expected.values) << stage;
    options.from = 4;
    EXPECT_EQ(ValuesByAllReduce(spec, options).values, expected.values) << stage;
    EXPECT_EQ(ValuesByAllReduce(offloads, options).values, expected.values) << stage;
  }
  // Ranks that have all that is not of experts step it alike.
  v1::JobSpec copies = JobOfExpertRanks(4, 4, 1);
  copies.mutable_parallelism()->mutable_zero()->set_shard(1);
  const TrainedValues expected = ValuesByAllReduce(copies);
  copies.mutable_parallelism()->mutable_zero()->set_offload(v1::ZeroSpec::OPTIMIZER_STATE);
  EXPECT_EQ(ValuesByAllReduce(copies).values, expected.values);
}

TEST_F(ExpertTrainingTest, EveryRouter) {
  v1::JobSpec spec = Job();
  v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
  const auto expect_as_one_process = [&] {
    ExpectClose(ValuesByAllReduce(OnMesh(ByAllReduce(spec), 2, 2, 1)), TrainLocally(spec), 1e-5);
  };
  moe.set_experts(6);
  moe.set_top_k(3);
  moe.set_scores(v1::MoeSpec::SIGMOID);
  moe.set_scaling(2.5);
  moe.set_groups(3);
  moe.set_top_groups(2);
  expect_as_one_process();
  moe.clear_groups();
  moe.clear_top_groups();
  moe.clear_shared_gate();
  moe.set_scores(v1::MoeSpec::SOFTMAX);
  moe.clear_normalize();
  expect_as_one_process();
  moe.clear_shared_width();
  moe.clear_auxiliary_loss();
  moe.set_top_k(1);
  moe.clear_dense_layers();
  expect_as_one_process();
}

TEST_F(ExpertTrainingTest, EvaluationsAreThoseOfOneProcess) {
  v1::JobSpec spec = ByAllReduce(Job());
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(4);
  v1::JobSpec one = spec;
  one.set_workers(1);
  const RunResult alone = TrainByAllReduce(one, {});
  ASSERT_GT(alone.evaluated, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectEvaluationsOf(alone, TrainByAllReduce(OnMesh(spec, 2, 2, 1), {})));

  // Some of three ranks have passes without examples, in which others need their experts.
  spec.mutable_model()->mutable_transformer()->mutable_moe()->set_experts(6);
  one = spec;
  one.set_workers(1);
  for (v1::JobSpec* const each : {&one, &spec}) {
    each->mutable_evaluation()->set_max_examples(2);
  }
  spec = OnMesh(spec, 1, 3);
  spec.mutable_parallelism()->set_expert(3);
  ASSERT_NO_FATAL_FAILURE(
      ExpectEvaluationsOf(TrainByAllReduce(one, {}), TrainByAllReduce(spec, {})));
}

}  // namespace
}  // namespace muster
