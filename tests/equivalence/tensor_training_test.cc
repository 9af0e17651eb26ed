// Jobs whose layers are divided among tensor ranks train as one process does, in every stage of
// ZeRO.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/expected_traffic.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

using Shape = TensorShape;

class TensorTrainingTest : public ::testing::Test {
 protected:
  // Returns TensorJob by all-reduce, with two micro-batches and clipping, in 20 steps.
  v1::JobSpec Job(Shape shape) {
    v1::JobSpec spec = ByAllReduce(TensorJob(shape, folder_));
    spec.mutable_update()->set_first_bucket_bytes(64);
    spec.mutable_update()->set_bucket_bytes(500);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    spec.set_micro_batches(2);
    spec.mutable_stop()->set_steps(20);
    return spec;
  }

  const TempFolder folder_;
};

using ShapeOnMesh = std::tuple<Shape, uint32_t, uint32_t>;

class EveryMeshTest : public TensorTrainingTest, public ::testing::WithParamInterface<ShapeOnMesh> {
 protected:
  static Shape shape() { return std::get<0>(GetParam()); }
  static uint32_t tensor() { return std::get<1>(GetParam()); }
  static uint32_t data() { return std::get<2>(GetParam()); }
};

TEST_P(EveryMeshTest, TrainsAsOneProcess) {
  const v1::JobSpec spec = Job(shape());
  const TrainedValues expected = TrainLocally(spec);
  ExpectClose(ValuesByAllReduce(OnMesh(spec, tensor(), data())), expected, 1e-5);
  ExpectClose(ValuesByAllReduce(WithoutSequence(OnMesh(spec, tensor(), data()))), expected, 1e-5);
}

TEST_P(EveryMeshTest, GradientsAreThoseOfOneProcess) {
  const v1::JobSpec spec = ForGradients(Job(shape()));
  const TrainedValues expected = TrainLocally(spec);
  ExpectClose(ValuesByAllReduce(OnMesh(spec, tensor(), data())), expected, 1e-5);
}

std::string NameOfMesh(const ::testing::TestParamInfo<ShapeOnMesh>& info) {
  const auto& [shape, tensor, data] = info.param;
  return absl::StrCat(NameOf(shape), "_tensor", tensor, "_data", data);
}

// Any two of shape, tensor ranks and data ranks meet.
INSTANTIATE_TEST_SUITE_P(
    TensorTraining, EveryMeshTest,
    ::testing::Values(ShapeOnMesh{Shape::kGpt2, 2, 1}, ShapeOnMesh{Shape::kGpt2, 4, 2},
                      ShapeOnMesh{Shape::kGpt2, 8, 1}, ShapeOnMesh{Shape::kLlama, 2, 2},
                      ShapeOnMesh{Shape::kLlama, 4, 1}, ShapeOnMesh{Shape::kLlama, 8, 2}),
    NameOfMesh);
INSTANTIATE_TEST_SUITE_P(
    ExhaustiveTensorTraining, EveryMeshTest,
    ::testing::Values(ShapeOnMesh{Shape::kGpt2, 2, 2}, ShapeOnMesh{Shape::kGpt2, 4, 1},
                      ShapeOnMesh{Shape::kGpt2, 8, 2}, ShapeOnMesh{Shape::kLlama, 2, 1},
                      ShapeOnMesh{Shape::kLlama, 4, 2}, ShapeOnMesh{Shape::kLlama, 8, 1}),
    NameOfMesh);

class BothShapesTest : public TensorTrainingTest, public ::testing::WithParamInterface<Shape> {};

// Stages sum micro-batches in one of two orders.
TEST_P(BothShapesTest, StagesEndInTheSameBits) {
  const v1::JobSpec spec = Job(GetParam());
  const TrainedValues alone = TrainLocally(spec);
  for (const bool sequence : {true, false}) {
    const auto train = [&](uint32_t stage) {
      const v1::JobSpec divided = OnMesh(spec, 2, 2, stage);
      return ValuesByAllReduce(sequence ? divided : WithoutSequence(divided));
    };
    const TrainedValues whole = train(0);
    EXPECT_EQ(train(1).values, whole.values);
    const TrainedValues sliced = train(2);
    EXPECT_EQ(train(3).values, sliced.values);
    ExpectClose(sliced, alone, 1e-5);
  }
  v1::JobSpec single = OnMesh(spec, 2, 2);
  single.clear_micro_batches();
  const TrainedValues whole = ValuesByAllReduce(single);
  for (const uint32_t stage : {1, 2, 3}) {
    EXPECT_EQ(ValuesByAllReduce(OnMesh(single, 2, 2, stage)).values, whole.values) << stage;
  }
}

TEST_P(BothShapesTest, EightRanksTrainAsOneProcessInEveryStage) {
  const v1::JobSpec spec = Job(GetParam());
  const TrainedValues expected = TrainLocally(spec);
  for (const uint32_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    ExpectClose(ValuesByAllReduce(OnMesh(spec, 4, 2, stage)), expected, 1e-5);
    // Two shard groups, which are replicas.
    ExpectClose(ValuesByAllReduce(OnMesh(spec, 2, 4, stage, /*shard=*/2)), expected, 1e-5);
  }
}

TEST_P(BothShapesTest, RecomputedActivationsEndInTheSameBits) {
  v1::JobSpec spec = OnMesh(Job(GetParam()), 4, 2, 2);
  spec.mutable_stop()->set_steps(10);
  const TrainedValues expected = ValuesByAllReduce(spec);
  for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    spec.mutable_compute()->set_recompute(recompute);
    EXPECT_EQ(ValuesByAllReduce(spec).values, expected.values) << recompute;
  }
}

// Whether norms and residuals are divided by tokens makes no difference to a step's matrices.
TEST_P(BothShapesTest, FirstStepsWithAndWithoutSequenceHaveEqualMatrices) {
  v1::JobSpec spec = Job(GetParam());
  spec.clear_optimizer();
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(1);
  spec.clear_clipping();
  spec.mutable_stop()->set_steps(1);
  for (const uint32_t tensor : {2, 4}) {
    const TrainedValues with = ValuesByAllReduce(OnMesh(spec, tensor, 2));
    const TrainedValues without = ValuesByAllReduce(WithoutSequence(OnMesh(spec, tensor, 2)));
    ExpectClose(with, without, 1e-6);
    int matrices = 0;
    for (const auto& [name, values] : without.values) {
      if (name.find("norm") != name.npos || name.find("bias") != name.npos) continue;
      ++matrices;
      EXPECT_EQ(with.values.at(name), values) << name;
    }
    EXPECT_GT(matrices, 8);
  }
}

// What is rounded to 16 bits is rounded once more for each sum over tensor ranks.
TEST_P(BothShapesTest, SixteenBitTypesAreNearInEveryStage) {
  for (const auto type : {v1::ComputeSpec::BF16, v1::ComputeSpec::F16}) {
    SCOPED_TRACE(type);
    v1::JobSpec spec = Job(GetParam());
    spec.mutable_compute()->set_type(type);
    spec.clear_micro_batches();
    const TrainedValues expected = TrainLocally(spec);
    const TrainedValues whole = ValuesByAllReduce(OnMesh(spec, 2, 2));
    ExpectClose(whole, expected, type == v1::ComputeSpec::BF16 ? 3e-2 : 4e-3);
    for (const uint32_t stage : {1, 2, 3}) {
      EXPECT_EQ(ValuesByAllReduce(OnMesh(spec, 2, 2, stage)).values, whole.values) << stage;
    }
  }
}

// Between machines a ring adds long vectors in an order that depends on where an element lies: not
// at the same place on the first tensor rank, which has positions and biases that others lack.
TEST_F(TensorTrainingTest, WhatTensorRanksShareStaysEqualInLongSums) {
  v1::JobSpec spec = Job(Shape::kGpt2);
  v1::TransformerSpec& model = *spec.mutable_model()->mutable_transformer();
  model.set_layers(12);
  model.set_width(64);
  model.set_feed_forward(128);
  model.set_context(256);
  spec.mutable_update()->set_deterministic(false);
  // All gradients of a rank are one vector, of 800 KiB.
  spec.mutable_update()->set_first_bucket_bytes(64 << 20);
  spec.set_batch_size(3);
  spec.clear_micro_batches();
  spec.mutable_stop()->set_steps(1);
  RunOptions options;
  options.share_memory = false;
  ValuesByAllReduce(OnMesh(spec, 2, 3), options);
}

TEST_F(TensorTrainingTest, RanksMayHaveAnOddNumberOfHeads) {
  for (const Shape shape : {Shape::kGpt2, Shape::kLlama}) {
    v1::JobSpec spec = Job(shape);
    spec.mutable_model()->mutable_transformer()->set_width(24);
    spec.mutable_model()->mutable_transformer()->set_heads(6);
    spec.mutable_stop()->set_steps(10);
    ExpectClose(ValuesByAllReduce(OnMesh(spec, 2, 2, 3)), TrainLocally(spec), 1e-5);
  }
}

TEST_F(TensorTrainingTest, PerceptronsTrainAsOneProcessInEveryStage) {
  v1::JobSpec spec = TinyJob("mlp", "adam", "");
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_clipping()->set_by_global_norm(0.05);
  spec.set_micro_batches(2);
  const TrainedValues expected = TrainLocally(spec);
  for (const uint32_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    ExpectClose(ValuesByAllReduce(OnMesh(spec, 2, 2, stage)), expected, 1e-5);
    ExpectClose(ValuesByAllReduce(OnMesh(spec, 4, 2, stage)), expected, 1e-5);
  }
}

TEST_F(TensorTrainingTest, OverflowsAreLeftOutByAllRanks) {
  const v1::JobSpec spec = InFloat16(Job(Shape::kLlama), 12);
  std::vector<std::string> alone;
  const TrainedValues expected = TrainLocally(spec, nullptr, &alone);
  for (const uint32_t stage : {0, 2}) {
    const v1::JobSpec mesh = OnMesh(spec, 2, 2, stage);
    const RunResult run = TrainByAllReduce(mesh, {});
    EXPECT_FALSE(StepsLeftOut(mesh, run).empty()) << stage;
    ExpectClose(run.trained[0], expected, 4e-3);
  }
}

TEST_F(TensorTrainingTest, EvaluationsCountEachExampleOnce) {
  v1::JobSpec spec = Job(Shape::kGpt2);
  spec.mutable_stop()->set_steps(8);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(4);
  v1::JobSpec one = spec;
  one.set_workers(1);
  const RunResult alone = TrainByAllReduce(one, {});
  ASSERT_GT(alone.evaluated, 0u);
  for (const uint32_t stage : {0, 3}) {
    const RunResult run = TrainByAllReduce(OnMesh(spec, 2, 2, stage), {});
    ASSERT_NO_FATAL_FAILURE(ExpectEvaluationsOf(alone, run));
    v1::JobSpec seldom = OnMesh(spec, 2, 2, stage);
    seldom.mutable_evaluation()->set_every_steps(8);
    const StrategyCounters counters = TrainByAllReduce(seldom, {}).counters[0];
    EXPECT_GT(counters.tensor_bytes_sent, 0);
    EXPECT_EQ(run.counters[0].tensor_bytes_sent, counters.tensor_bytes_sent)
        << "evaluations do not count";
  }
}

TEST_P(BothShapesTest, BytesAlongEachAxisAreThosePredicted) {
  v1::JobSpec spec = Job(GetParam());
  spec.mutable_stop()->set_steps(4);
  v1::JobSpec again = spec;
  again.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
  v1::JobSpec half = spec;
  half.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  for (const v1::JobSpec& job :
       {OnMesh(spec, 2, 1), OnMesh(spec, 4, 2), WithoutSequence(OnMesh(spec, 4, 2)),
        OnMesh(spec, 2, 2, 1), OnMesh(spec, 2, 2, 3), WithoutSequence(OnMesh(spec, 4, 2, 2)),
        OnMesh(spec, 2, 4, 3, /*shard=*/2), OnMesh(again, 2, 2),
        WithoutSequence(OnMesh(again, 2, 2)), OnMesh(half, 4, 2, 1)}) {
    ExpectPredictedTraffic(job);
  }
}

TEST_F(TensorTrainingTest, ALostRankTakesTheStateOfItsPeer) {
  v1::JobSpec spec = OnMesh(Job(Shape::kLlama), 2, 2);
  spec.mutable_stop()->set_steps(8);
  const TrainedValues expected = ValuesByAllReduce(spec);
  for (const uint32_t slot : {0, 3}) {
    for (const HookCall& at : {HookCall{Hook::kAcquire, 3, 2}, HookCall{Hook::kGradientReady, 4, 7},
                               HookCall{Hook::kEndStep, 5, 1}}) {
      for (const bool takes_effect : {false, true}) {
        ExpectLossIsRepaired(spec, {slot, at, takes_effect}, expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TensorTraining, BothShapesTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace muster
