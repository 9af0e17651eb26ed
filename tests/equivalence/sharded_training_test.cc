// Sharded data parallelism trains as plain data parallelism does, stage by stage: to the bit where
// the order of sums is the same, and otherwise as near as roads are to one another.
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/step_observer.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

v1::JobSpec InStage(v1::JobSpec spec, uint32_t stage, uint32_t shard = 0) {
  spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  spec.mutable_parallelism()->mutable_zero()->set_shard(shard);
  return spec;
}

// Records what one slot does with its units, in order.
class UnitRecorder final : public StepObserver {
 public:
  void Acquired(uint32_t slot, int unit, Direction direction,
                const ModelParameters& parameters) override {
    if (slot != 0) return;
    const bool forward = direction == Direction::kForward;
    actions_.push_back(absl::StrCat(forward ? "forward" : "backward", " of unit ", unit));
    // Weights, then biases.
    const absl::Span<const float> weights = parameters.values[2 * unit];
    read_.emplace_back(weights.begin(), weights.end());
  }
  void Released(uint32_t slot, int unit, Direction direction) override {
    if (slot == 0) actions_.push_back(absl::StrCat("release of unit ", unit));
  }
  void GradientReady(uint32_t slot, uint64_t clock, int unit, float loss_scale,
                     GradientSpans gradients) override {
    if (slot == 0) actions_.push_back(absl::StrCat("gradients of unit ", unit));
  }
  void StepEnded(uint32_t slot, uint64_t clock, const StepSums& sums) override {
    if (slot == 0) actions_.push_back("step");
  }

  const std::vector<std::string>& actions() const { return actions_; }
  // The weights of the unit at each of its acquisitions.
  const std::vector<std::vector<float>>& read() const { return read_; }

 private:
  std::vector<std::string> actions_;
  std::vector<std::vector<float>> read_;
};

class ShardedTrainingTest : public ::testing::Test {
 protected:
  // Returns a deterministic job with clipping, on three ranks.
  v1::JobSpec Job(const std::string& model, const std::string& optimizer) {
    v1::JobSpec spec = ByAllReduceInSmallBuckets(TinyJob(model, optimizer, WriteTinyText(folder_)));
    spec.set_workers(3);
    spec.mutable_stop()->set_steps(12);
    spec.mutable_update()->set_deterministic(true);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    return spec;
  }

  // Returns a transformer job with a tied head and dropout.
  v1::JobSpec Transformer() {
    v1::JobSpec spec = Job("transformer", "adamw");
    spec.mutable_optimizer()->set_learning_rate(0.003);
    spec.mutable_model()->mutable_transformer()->set_dropout(0.1);
    spec.mutable_model()->mutable_transformer()->set_attention_dropout(0.1);
    return spec;
  }

  const TempFolder folder_;
};

class EveryModelAndOptimizerTest
    : public ShardedTrainingTest,
      public ::testing::WithParamInterface<std::tuple<std::string, std::string>> {};

TEST_P(EveryModelAndOptimizerTest, AllStagesEndInTheSameBits) {
  v1::JobSpec spec = Job(std::get<0>(GetParam()), std::get<1>(GetParam()));
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const TrainedValues expected = ValuesByAllReduce(spec, options);
  for (const uint32_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    EXPECT_EQ(ValuesByAllReduce(InStage(spec, stage), options).values, expected.values);
  }
}

INSTANTIATE_TEST_SUITE_P(ShardedTraining, EveryModelAndOptimizerTest,
                         ::testing::ValuesIn(ChosenModelsAndOptimizers()), [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });
INSTANTIATE_TEST_SUITE_P(ExhaustiveShardedTraining, EveryModelAndOptimizerTest,
                         ::testing::ValuesIn(OtherModelsAndOptimizers()), [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

class EveryWorldTest : public ShardedTrainingTest, public ::testing::WithParamInterface<int> {};

TEST_P(EveryWorldTest, MicroBatchesSumInTheStagesOrder) {
  for (v1::JobSpec spec : {Transformer(), Job("mlp", "momentum"), Job("deep_fm", "momentum")}) {
    SCOPED_TRACE(spec.model().ShortDebugString());
    spec.set_workers(GetParam());
    spec.set_micro_batches(3);
    const TrainedValues local = TrainLocally(spec);
    RunOptions options;
    options.keys = local.keys;
    const TrainedValues whole = ValuesByAllReduce(spec, options);
    EXPECT_EQ(ValuesByAllReduce(InStage(spec, 1), options).values, whole.values);
    const TrainedValues sliced = ValuesByAllReduce(InStage(spec, 2), options);
    EXPECT_EQ(ValuesByAllReduce(InStage(spec, 3), options).values, sliced.values);
    ExpectClose(sliced, whole, 1e-5);
    ExpectClose(sliced, local, 1e-5);
  }
}

// Three partitions are divided, so some ranks own no rows; others' batches may be empty.
TEST_P(EveryWorldTest, RowsAreDividedToTheSameBits) {
  for (const std::string optimizer : {"row_wise_adagrad", "ftrl"}) {
    v1::JobSpec spec = Job("deep_fm", optimizer);
    spec.set_workers(GetParam());
    spec.set_batch_size(17);
    RunOptions options;
    options.keys = TrainLocally(spec).keys;
    const TrainedValues whole = ValuesByAllReduce(spec, options);
    for (const uint32_t stage : {1, 2, 3}) {
      EXPECT_EQ(ValuesByAllReduce(InStage(spec, stage), options).values, whole.values) << stage;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ShardedTraining, EveryWorldTest, ::testing::Values(2, 3, 4, 8));

TEST_F(ShardedTrainingTest, SixteenBitTypesEndInTheSameBits) {
  for (const auto type : {v1::ComputeSpec::BF16, v1::ComputeSpec::F16}) {
    SCOPED_TRACE(type);
    v1::JobSpec spec = Transformer();
    spec.mutable_compute()->set_type(type);
    const TrainedValues expected = ValuesByAllReduce(spec);
    for (const uint32_t stage : {1, 2, 3}) {
      EXPECT_EQ(ValuesByAllReduce(InStage(spec, stage)).values, expected.values) << stage;
    }
  }
}

// The scale doubles with each step until gradients overflow; those steps are left out.
TEST_F(ShardedTrainingTest, OverflowsAreLeftOutInEveryStage) {
  v1::JobSpec spec = Transformer();
  spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
  spec.mutable_compute()->set_loss_scale_window(1);
  const RunResult plain = TrainByAllReduce(spec, {});
  ASSERT_FALSE(plain.log.empty());
  for (const uint32_t stage : {1, 2, 3}) {
    const RunResult run = TrainByAllReduce(InStage(spec, stage), {});
    EXPECT_EQ(run.trained[0].values, plain.trained[0].values) << stage;
    EXPECT_EQ(run.log.size(), plain.log.size());
  }
}

TEST_F(ShardedTrainingTest, HalfTheBytesAreNearAndAlikeInStagesTwoAndThree) {
  v1::JobSpec spec = Job("transformer", "sgd");
  const TrainedValues expected = ValuesByAllReduce(spec);
  spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  const TrainedValues two = ValuesByAllReduce(InStage(spec, 2));
  ExpectClose(two, expected, 1e-2);
  EXPECT_EQ(ValuesByAllReduce(InStage(spec, 3)).values, two.values);
  EXPECT_NE(two.values, expected.values);
}

TEST_F(ShardedTrainingTest, GroupsWithReplicasAreNearPlainDataParallelism) {
  for (v1::JobSpec spec : {Transformer(), Job("mlp", "adam"), Job("deep_fm", "sgd")}) {
    spec.set_workers(4);
    spec.set_micro_batches(2);
    RunOptions options;
    options.keys = TrainLocally(spec).keys;
    const TrainedValues expected = ValuesByAllReduce(spec, options);
    for (const uint32_t stage : {1, 2, 3}) {
      ExpectClose(ValuesByAllReduce(InStage(spec, stage, 2), options), expected, 1e-5);
    }
  }
}

TEST_F(ShardedTrainingTest, HybridJobsEndInTheSameBits) {
  v1::JobSpec spec = Job("deep_fm", "adam");
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const TrainedValues expected = ValuesByAllReduce(spec, options);
  for (const uint32_t stage : {1, 2, 3}) {
    EXPECT_EQ(ValuesByAllReduce(InStage(spec, stage), options).values, expected.values) << stage;
  }
}

// Every rank has the same number of held-out examples.
TEST_F(ShardedTrainingTest, EvaluationsAreAlike) {
  for (v1::JobSpec spec : {Transformer(), Job("deep_fm", "adam")}) {
    SCOPED_TRACE(spec.model().ShortDebugString());
    spec.set_workers(2);
    spec.mutable_data()->set_holdout(0.2);
    spec.mutable_evaluation()->set_every_steps(4);
    RunOptions options;
    options.keys = TrainLocally(spec).keys;
    const RunResult expected = TrainByAllReduce(spec, options);
    ASSERT_EQ(expected.curve.size(), 3);
    for (const uint32_t stage : {1, 2, 3}) {
      const RunResult run = TrainByAllReduce(InStage(spec, stage), options);
      EXPECT_EQ(run.curve, expected.curve) << stage;
      EXPECT_EQ(run.trained[0].values, expected.trained[0].values) << stage;
      v1::JobSpec seldom = InStage(spec, stage);
      seldom.mutable_evaluation()->set_every_steps(12);
      const StrategyCounters counters = TrainByAllReduce(seldom, options).counters[0];
      EXPECT_EQ(run.counters[0].other_bytes_sent, counters.other_bytes_sent)
          << "evaluations do not count";
    }
  }
}

// Two of the four ranks have no held-out example, and run the pass of the others without.
TEST_F(ShardedTrainingTest, EvaluationsWithFewerExamplesThanRanksAreAlike) {
  for (v1::JobSpec spec : {Transformer(), Job("deep_fm", "adam")}) {
    SCOPED_TRACE(spec.model().ShortDebugString());
    spec.set_workers(4);
    spec.mutable_data()->set_holdout(0.2);
    spec.mutable_evaluation()->set_every_steps(6);
    spec.mutable_evaluation()->set_max_examples(2);
    RunOptions options;
    options.keys = TrainLocally(spec).keys;
    const RunResult expected = TrainByAllReduce(spec, options);
    ASSERT_EQ(expected.curve.size(), 2);
    EXPECT_EQ(expected.evaluated, 2);
    for (const uint32_t stage : {1, 2, 3}) {
      const RunResult run = TrainByAllReduce(InStage(spec, stage), options);
      EXPECT_EQ(run.curve, expected.curve) << stage;
      EXPECT_EQ(run.trained[0].values, expected.trained[0].values) << stage;
    }
  }
}

// With memory for no unit that shares a place, for some and for all.
TEST_F(ShardedTrainingTest, KeptUnitsEndInTheSameBits) {
  v1::JobSpec spec = InStage(Transformer(), 3);
  spec.set_micro_batches(3);
  for (const auto type : {v1::ComputeSpec::F32, v1::ComputeSpec::BF16}) {
    spec.mutable_compute()->set_type(type);
    spec.mutable_parallelism()->mutable_zero()->clear_keep_gathered_bytes();
    const TrainedValues expected = ValuesByAllReduce(spec);
    for (const uint64_t bytes : {64, 8192, 1 << 24}) {
      spec.mutable_parallelism()->mutable_zero()->set_keep_gathered_bytes(bytes);
      EXPECT_EQ(ValuesByAllReduce(spec).values, expected.values) << bytes;
    }
  }
}

TEST_F(ShardedTrainingTest, OffloadedStateEndsInTheSameBits) {
  for (const std::string& optimizer : OptimizerNames()) {
    SCOPED_TRACE(optimizer);
    v1::JobSpec spec = Job("mlp", optimizer);
    const TrainedValues expected = ValuesByAllReduce(spec);
    spec.mutable_parallelism()->mutable_zero()->set_offload(v1::ZeroSpec::OPTIMIZER_STATE);
    for (const uint32_t stage : {1, 2, 3}) {
      EXPECT_EQ(ValuesByAllReduce(InStage(spec, stage)).values, expected.values) << stage;
    }
    // Each rank has a whole copy, which all of them step alike.
    EXPECT_EQ(ValuesByAllReduce(InStage(spec, 1, /*shard=*/1)).values, expected.values);
  }
}

TEST_F(ShardedTrainingTest, CheckpointsGoOnWithAndWithoutOffload) {
  v1::JobSpec spec = InStage(Transformer(), 2);
  spec.mutable_checkpoint()->set_every_steps(4);
  v1::JobSpec offloads = spec;
  offloads.mutable_parallelism()->mutable_zero()->set_offload(v1::ZeroSpec::OPTIMIZER_STATE);
  const TrainedValues expected = ValuesByAllReduce(spec);
  RunCheckpoints checkpoints;
  RunOptions options;
  options.checkpoints = &checkpoints;
  EXPECT_EQ(ValuesByAllReduce(offloads, options).values, expected.values);
  options.from = 4;
  EXPECT_EQ(ValuesByAllReduce(spec, options).values, expected.values);
  options.from = 8;
  EXPECT_EQ(ValuesByAllReduce(InStage(offloads, 3), options).values, expected.values);
}

// Results are equal to the bit, because the number of slots is the same on all roads.
TEST_F(ShardedTrainingTest, CheckpointsGoOnInOtherStagesAndOnOtherRoads) {
  for (const std::string model : {"transformer", "deep_fm"}) {
    SCOPED_TRACE(model);
    v1::JobSpec spec = Job(model, "adam");
    spec.mutable_checkpoint()->set_every_steps(4);
    spec.mutable_stop()->set_steps(24);
    RunOptions options;
    options.keys = TrainLocally(spec).keys;
    const TrainedValues expected = ValuesByAllReduce(spec, options);
    RunCheckpoints checkpoints;
    options.checkpoints = &checkpoints;
    EXPECT_EQ(ValuesByAllReduce(InStage(spec, 3), options).values, expected.values);
    options.from = 4;
    EXPECT_EQ(ValuesByAllReduce(InStage(spec, 1), options).values, expected.values);
    options.from = 8;
    EXPECT_EQ(ValuesByAllReduce(InStage(spec, 2), options).values, expected.values);
    options.from = 12;
    v1::JobSpec on_servers = spec;
    on_servers.clear_parallelism();
    on_servers.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
    on_servers.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
    EXPECT_EQ(TrainOnServers(on_servers, options).trained[0].values, expected.values);
    options.from = 16;
    EXPECT_EQ(ValuesByAllReduce(InStage(spec, 3), options).values, expected.values);
    options.from = 20;
    EXPECT_EQ(ValuesByAllReduce(spec, options).values, expected.values);
  }
}

// Each run goes on from a checkpoint of the one before, with other ranks, in another stage or on
// the other road, and ends in the bits of a run without stages that came through the same worlds.
TEST_F(ShardedTrainingTest, CheckpointsGoOnThroughWorldsStagesAndRoadsAndBack) {
  enum class Road { kAllReduce, kServers };
  struct Link {
    int ranks;
    Road road;
    uint32_t stage;
  };
  const std::vector<Link> chain = {
      {4, Road::kAllReduce, 3}, {2, Road::kAllReduce, 2}, {3, Road::kAllReduce, 1},
      {3, Road::kServers, 0},   {3, Road::kAllReduce, 0}, {3, Road::kServers, 3},
      {3, Road::kAllReduce, 3}, {2, Road::kAllReduce, 1}, {4, Road::kAllReduce, 2}};
  constexpr uint64_t kSteps = 2;
  for (v1::JobSpec spec : {Transformer(), Job("deep_fm", "adam")}) {
    SCOPED_TRACE(spec.model().ShortDebugString());
    spec.mutable_stop()->set_steps(kSteps * chain.size());
    spec.mutable_checkpoint()->set_every_steps(kSteps);
    const TrainedValues alone = TrainLocally(spec);
    RunCheckpoints checkpoints, without_stages;
    RunOptions options, plain;
    options.keys = plain.keys = alone.keys;
    options.checkpoints = &checkpoints;
    plain.checkpoints = &without_stages;
    for (const Link& link : chain) {
      SCOPED_TRACE(absl::StrCat("from step ", options.from, " with ", link.ranks, " ranks"));
      spec.set_workers(link.ranks);
      const TrainedValues expected = ValuesByAllReduce(spec, plain);
      v1::JobSpec linked = link.stage == 0 ? spec : InStage(spec, link.stage);
      if (link.road == Road::kAllReduce) {
        EXPECT_EQ(ValuesByAllReduce(linked, options).values, expected.values);
      } else {
        linked.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
        linked.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
        EXPECT_EQ(TrainOnServers(linked, options).trained[0].values, expected.values);
      }
      ExpectClose(expected, alone, 1e-5);
      options.from = plain.from = options.from + kSteps;
    }
  }
}

// The servers' files of rows come before those of the ranks.
TEST_F(ShardedTrainingTest, CheckpointsOfHybridJobsGoOnOnOtherRoads) {
  v1::JobSpec spec = Job("deep_fm", "adam");
  spec.mutable_checkpoint()->set_every_steps(4);
  v1::JobSpec hybrid = spec;
  hybrid.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const TrainedValues expected = ValuesByAllReduce(spec, options);
  RunCheckpoints checkpoints;
  options.checkpoints = &checkpoints;
  EXPECT_EQ(ValuesByAllReduce(InStage(hybrid, 3), options).values, expected.values);
  options.from = 4;
  EXPECT_EQ(ValuesByAllReduce(InStage(spec, 1), options).values, expected.values);
  options.from = 8;
  EXPECT_EQ(ValuesByAllReduce(InStage(hybrid, 2), options).values, expected.values);
}

// Four ranks, two layers of 4 x 4 and their biases, twelve rows of four features, three rows a
// rank. A layer's weights and biases are one part, of which each rank has a fourth: five elements.
// The last layer goes forward and backward in one go, and the first is still there for its backward
// pass, so each is gathered once a step; the second travels while the first computes.
TEST_F(ShardedTrainingTest, TheWorkedExample) {
  v1::JobSpec spec = Job("mlp", "sgd");
  spec.mutable_model()->mutable_mlp()->clear_hidden();
  spec.mutable_model()->mutable_mlp()->add_hidden(4);
  spec.mutable_model()->mutable_mlp()->set_classes(4);
  spec.mutable_data()->mutable_synthetic_classification()->set_examples(12);
  spec.mutable_data()->mutable_synthetic_classification()->set_features(4);
  spec.mutable_data()->mutable_synthetic_classification()->set_classes(4);
  spec.set_workers(4);
  spec.set_batch_size(12);
  spec.mutable_stop()->set_steps(2);
  UnitRecorder recorder;
  RunOptions options;
  options.observer = &recorder;
  const RunResult run = TrainByAllReduce(InStage(spec, 3), options);

  const std::vector<std::string> step = {
      "forward of unit 0", "release of unit 0",   "backward of unit 1",
      "release of unit 1", "gradients of unit 1", "backward of unit 0",
      "release of unit 0", "gradients of unit 0", "step"};
  std::vector<std::string> steps = step;
  steps.insert(steps.end(), step.begin(), step.end());
  EXPECT_EQ(recorder.actions(), steps);

  // Every rank gathers and scatters this; nobody steps before all ranks have their sums.
  const std::vector<std::string> calls = {"weights of unit 0",      "weights of unit 1",
                                          "gradients of unit 1",    "gradients of unit 0",
                                          "examples and overflows", "norms of cells"};
  for (const auto& groups : run.collectives) {
    std::vector<std::string> made;
    for (const RecordedCall& call : groups[0]) {
      if (std::find(calls.begin(), calls.end(), call.label) != calls.end()) {
        made.push_back(call.label);
      }
    }
    ASSERT_EQ(made.size(), 2 * calls.size());
    for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i], calls[i % calls.size()]) << i;
  }

  // No weight changes before the whole backward pass is through; then every one does.
  ASSERT_EQ(recorder.read().size(), 6);
  EXPECT_EQ(recorder.read()[2], recorder.read()[0]);
  EXPECT_EQ(recorder.read()[5], recorder.read()[3]);
  for (const int unit : {0, 1}) {
    const std::vector<float>& before = recorder.read()[unit];
    const std::vector<float>& after = recorder.read()[3 + unit];
    ASSERT_EQ(before.size(), 16);
    EXPECT_NE(after, before);
  }
}

// The batch is divided otherwise in every world.
TEST_F(ShardedTrainingTest, CheckpointsGoOnInOtherWorlds) {
  for (v1::JobSpec spec : {Transformer(), Job("deep_fm", "momentum")}) {
    SCOPED_TRACE(spec.model().ShortDebugString());
    spec.mutable_checkpoint()->set_every_steps(3);
    const TrainedValues expected = TrainLocally(spec);
    RunCheckpoints checkpoints;
    RunOptions options;
    options.keys = expected.keys;
    options.checkpoints = &checkpoints;
    uint64_t from = 0;
    for (const int world : {4, 2, 3, 1}) {
      spec.set_workers(world);
      options.from = from;
      ExpectClose(ValuesByAllReduce(InStage(spec, world == 2 ? 2 : 3), options), expected, 1e-5);
      from += 3;
    }
  }
}

}  // namespace
}  // namespace muster
