// Jobs whose sequences context ranks share out train as one process does, in every stage of ZeRO.
#include <cstdint>
#include <string>
#include <tuple>

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
using Exchange = v1::ParallelismSpec::ContextExchange;

class ContextTrainingTest : public ::testing::Test {
 protected:
  // Returns TensorJob by all-reduce, with sequences that 2, 3 and 4 ranks share out, in 8 steps of
  // two micro-batches with clipping.
  v1::JobSpec Job(Shape shape) {
    v1::JobSpec spec = ByAllReduce(TensorJob(shape, folder_));
    spec.mutable_model()->mutable_transformer()->set_context(24);
    spec.mutable_update()->set_first_bucket_bytes(64);
    spec.mutable_update()->set_bucket_bytes(500);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    spec.set_micro_batches(2);
    spec.mutable_stop()->set_steps(8);
    return spec;
  }

  const TempFolder folder_;
};

// Shape, context ranks, tensor ranks, data ranks, ZeRO stage and exchange.
using Division = std::tuple<Shape, uint32_t, uint32_t, uint32_t, uint32_t, Exchange>;

class EveryDivisionTest : public ContextTrainingTest,
                          public ::testing::WithParamInterface<Division> {
 protected:
  v1::JobSpec Divided(const v1::JobSpec& spec) const {
    const auto& [shape, context, tensor, data, stage, exchange] = GetParam();
    return InContext(OnMesh(spec, tensor, data, stage), context, exchange);
  }
  static Shape shape() { return std::get<0>(GetParam()); }
};

TEST_P(EveryDivisionTest, TrainsAsOneProcess) {
  const v1::JobSpec spec = Job(shape());
  ExpectClose(ValuesByAllReduce(Divided(spec)), TrainLocally(spec), 1e-5);
}

TEST_P(EveryDivisionTest, GradientsAreThoseOfOneProcess) {
  const v1::JobSpec spec = ForGradients(Job(shape()));
  ExpectClose(ValuesByAllReduce(Divided(spec)), TrainLocally(spec), 1e-5);
}

TEST_P(EveryDivisionTest, BytesAlongEachAxisAreThosePredicted) {
  v1::JobSpec spec = Job(shape());
  spec.mutable_stop()->set_steps(2);
  ExpectPredictedTraffic(Divided(spec));
}

std::string NameOfDivision(const ::testing::TestParamInfo<Division>& info) {
  const auto& [shape, context, tensor, data, stage, exchange] = info.param;
  return absl::StrCat(NameOf(shape), "_context", context, "_tensor", tensor, "_data", data,
                      "_stage", stage, "_", v1::ParallelismSpec::ContextExchange_Name(exchange));
}

// Any two of shape, context, tensor, data, stage and exchange meet.
INSTANTIATE_TEST_SUITE_P(
    ContextTraining, EveryDivisionTest,
    ::testing::Values(Division{Shape::kGpt2, 2, 1, 1, 0, v1::ParallelismSpec::RING},
                      Division{Shape::kGpt2, 3, 1, 2, 1, v1::ParallelismSpec::GATHER},
                      Division{Shape::kGpt2, 4, 2, 1, 3, v1::ParallelismSpec::RING},
                      Division{Shape::kGpt2, 2, 2, 2, 2, v1::ParallelismSpec::GATHER},
                      Division{Shape::kLlama, 2, 2, 1, 1, v1::ParallelismSpec::RING},
                      Division{Shape::kLlama, 3, 2, 1, 2, v1::ParallelismSpec::RING},
                      Division{Shape::kLlama, 4, 1, 2, 0, v1::ParallelismSpec::GATHER},
                      Division{Shape::kLlama, 2, 1, 1, 3, v1::ParallelismSpec::GATHER},
                      Division{Shape::kLlama, 4, 1, 1, 1, v1::ParallelismSpec::RING},
                      Division{Shape::kGpt2, 3, 1, 1, 3, v1::ParallelismSpec::RING},
                      Division{Shape::kGpt2, 4, 1, 2, 2, v1::ParallelismSpec::HEADS},
                      Division{Shape::kGpt2, 2, 2, 1, 0, v1::ParallelismSpec::HEADS},
                      Division{Shape::kLlama, 2, 1, 2, 3, v1::ParallelismSpec::HEADS},
                      Division{Shape::kLlama, 4, 2, 1, 1, v1::ParallelismSpec::HEADS}),
    NameOfDivision);

class EveryExchangeTest : public ContextTrainingTest,
                          public ::testing::WithParamInterface<Exchange> {};

TEST_P(EveryExchangeTest, FiftyStepsOfSgdStayTogether) {
  v1::JobSpec spec = Job(Shape::kLlama);
  spec.clear_optimizer();
  spec.mutable_optimizer()->set_name("sgd");
  // At ten times this rounding grows with every step (context_servers_test.cc).
  spec.mutable_optimizer()->set_learning_rate(0.01);
  spec.clear_clipping();
  spec.clear_micro_batches();
  spec.mutable_stop()->set_steps(50);
  TrainedValues trained = ValuesByAllReduce(InContext(OnMesh(spec, 1, 1), 4, GetParam()));
  TrainedValues expected = TrainLocally(spec);
  // Biases, which begin at 0, are sums of gradients alone, and as near as these.
  const TrainedValues biases = TakeBiases(trained);
  ExpectClose(biases, TakeBiases(expected), 1e-5);
  ExpectClose(trained, expected, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(ContextTraining, EveryExchangeTest,
                         ::testing::Values(v1::ParallelismSpec::RING, v1::ParallelismSpec::GATHER,
                                           v1::ParallelismSpec::HEADS),
                         [](const auto& info) {
                           return v1::ParallelismSpec::ContextExchange_Name(info.param);
                         });

class BothShapesInContextTest : public ContextTrainingTest,
                                public ::testing::WithParamInterface<Shape> {};

TEST_P(BothShapesInContextTest, StagesEndInTheSameBits) {
  v1::JobSpec spec = Job(GetParam());
  spec.clear_micro_batches();
  const TrainedValues whole = ValuesByAllReduce(InContext(OnMesh(spec, 1, 2), 2));
  for (const uint32_t stage : {1, 2, 3}) {
    EXPECT_EQ(ValuesByAllReduce(InContext(OnMesh(spec, 1, 2, stage), 2)).values, whole.values)
        << stage;
  }
}

TEST_P(BothShapesInContextTest, RecomputedActivationsEndInTheSameBits) {
  for (v1::JobSpec spec :
       {InContext(OnMesh(Job(GetParam()), 1, 1, 2), 3),
        InContext(OnMesh(Job(GetParam()), 1, 1, 2), 4, v1::ParallelismSpec::HEADS)}) {
    const TrainedValues expected = ValuesByAllReduce(spec);
    for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
      spec.mutable_compute()->set_recompute(recompute);
      EXPECT_EQ(ValuesByAllReduce(spec).values, expected.values) << recompute;
      ExpectPredictedTraffic(spec);
    }
  }
}

TEST_P(BothShapesInContextTest, SixteenBitTypesAreNear) {
  for (const auto type : {v1::ComputeSpec::BF16, v1::ComputeSpec::F16}) {
    SCOPED_TRACE(type);
    v1::JobSpec spec = Job(GetParam());
    spec.mutable_compute()->set_type(type);
    spec.clear_micro_batches();
    const TrainedValues expected = TrainLocally(spec);
    for (const Exchange exchange : {v1::ParallelismSpec::RING, v1::ParallelismSpec::HEADS}) {
      ExpectClose(ValuesByAllReduce(InContext(OnMesh(spec, 1, 2, 1), 2, exchange)), expected,
                  type == v1::ComputeSpec::BF16 ? 3e-2 : 4e-3);
    }
  }
}

TEST_P(BothShapesInContextTest, EverySchedule) {
  v1::JobSpec spec = PipelineJob(GetParam(), folder_);
  spec.mutable_model()->mutable_transformer()->set_context(24);
  spec = ByAllReduce(spec);
  spec.mutable_stop()->set_steps(6);
  const TrainedValues expected = TrainLocally(spec);
  for (const auto schedule : {v1::ParallelismSpec::GPIPE, v1::ParallelismSpec::ONE_F_ONE_B,
                              v1::ParallelismSpec::INTERLEAVED, v1::ParallelismSpec::ZERO_BUBBLE}) {
    SCOPED_TRACE(schedule);
    const bool by_heads =
        schedule == v1::ParallelismSpec::GPIPE || schedule == v1::ParallelismSpec::ZERO_BUBBLE;
    const v1::JobSpec divided =
        InPipeline(InContext(OnMesh(spec, 1, 1), 2,
                             by_heads == (GetParam() == Shape::kLlama) ? v1::ParallelismSpec::HEADS
                                                                       : v1::ParallelismSpec::RING),
                   2, schedule);
    ExpectClose(ValuesByAllReduce(divided), expected, 1e-5);
    ExpectPredictedTraffic(divided);
  }
}

INSTANTIATE_TEST_SUITE_P(ContextTraining, BothShapesInContextTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama),
                         [](const auto& info) { return NameOf(info.param); });

TEST_F(ContextTrainingTest, EvaluationsCountEachExampleOnce) {
  v1::JobSpec spec = Job(Shape::kGpt2);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(4);
  v1::JobSpec one = spec;
  one.set_workers(1);
  const RunResult alone = TrainByAllReduce(one, {});
  ASSERT_GT(alone.evaluated, 0u);
  ASSERT_NO_FATAL_FAILURE(
      ExpectEvaluationsOf(alone, TrainByAllReduce(InContext(OnMesh(spec, 1, 2), 2), {})));
}

// Norms over all heads together, whose weights are as long as queries or keys.
TEST_F(ContextTrainingTest, NormsOfWholeQueriesAndKeys) {
  v1::JobSpec spec = Job(Shape::kLlama);
  spec.mutable_model()->mutable_transformer()->set_query_key_norm(v1::TransformerSpec::WHOLE_WIDTH);
  const TrainedValues expected = TrainLocally(spec);
  ExpectClose(ValuesByAllReduce(InContext(OnMesh(spec, 1, 2, 2), 2)), expected, 1e-5);
  ExpectClose(ValuesByAllReduce(OnMesh(spec, 1, 3, 3)), expected, 1e-5);
}

TEST_F(ContextTrainingTest, ALostRankTakesTheStateOfAContextRank) {
  const v1::JobSpec spec = InContext(OnMesh(Job(Shape::kLlama), 1, 2), 2);
  const TrainedValues expected = ValuesByAllReduce(spec);
  for (const uint32_t slot : {0, 3}) {
    for (const HookCall& at : {HookCall{Hook::kAcquire, 3, 2}, HookCall{Hook::kGradientReady, 4, 7},
                               HookCall{Hook::kEndStep, 5, 1}}) {
      ExpectLossIsRepaired(spec, {slot, at, /*takes_effect=*/true}, expected);
    }
  }
}

}  // namespace
}  // namespace muster
