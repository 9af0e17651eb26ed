// Jobs on servers whose sequences context ranks share out train as one process does, move what is
// planned, and go on through losses.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <tuple>

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

using Shape = TensorShape;
using Parallelism = v1::ParallelismSpec;

class ContextServersTest : public ::testing::Test {
 protected:
  // Returns PipelineJob with sequences that 2 and 4 ranks share out, in 6 steps.
  v1::JobSpec Job(Shape shape) {
    v1::JobSpec spec = PipelineJob(shape, folder_, /*blocks=*/2);
    spec.mutable_model()->mutable_transformer()->set_context(24);
    spec.set_micro_batches(2);
    spec.mutable_stop()->set_steps(6);
    return spec;
  }

  // Loses ranks in a part of all ways, in which any two of stage, slot, hook and effect meet, or in
  // the others.
  void ExpectLossesToBeRepaired(bool chosen);

  const TempFolder folder_;
};

// Shape, context ranks, tensor ranks, data ranks, stages of a pipeline, ZeRO stage and exchange.
using ServedDivision = std::tuple<Shape, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
                                  Parallelism::ContextExchange>;

class EveryServedDivisionTest : public ContextServersTest,
                                public ::testing::WithParamInterface<ServedDivision> {
 protected:
  v1::JobSpec Divided(const v1::JobSpec& spec) const {
    const auto& [shape, context, tensor, data, stages, zero, exchange] = GetParam();
    const v1::JobSpec mesh = InContext(OnMesh(spec, tensor, data, zero), context, exchange);
    return stages == 1 ? mesh : InPipeline(mesh, stages, Parallelism::ONE_F_ONE_B);
  }
  static Shape shape() { return std::get<0>(GetParam()); }
};

TEST_P(EveryServedDivisionTest, TrainsAsOneProcess) {
  const v1::JobSpec spec = Job(shape());
  ExpectClose(ValuesOnServers(Divided(spec)), TrainLocally(spec), 1e-5);
}

TEST_P(EveryServedDivisionTest, GradientsAreThoseOfOneProcess) {
  const v1::JobSpec spec = ForGradients(Job(shape()));
  ExpectClose(ValuesOnServers(Divided(spec)), TrainLocally(spec), 1e-5);
}

TEST_P(EveryServedDivisionTest, FiftyStepsAreThoseOfOneProcess) {
  v1::JobSpec spec = Job(shape());
  spec.clear_optimizer();
  spec.mutable_optimizer()->set_name("sgd");
  // Heads that are normalised turn the faster the smaller their weights are: at ten times this
  // rounding grows with every step.
  spec.mutable_optimizer()->set_learning_rate(0.01);
  spec.clear_clipping();
  spec.clear_micro_batches();
  spec.mutable_stop()->set_steps(50);
  // A pipeline of one micro-batch is none.
  if (Divided(spec).parallelism().pipeline() > 1) spec.set_micro_batches(2);
  TrainedValues trained = ValuesOnServers(Divided(spec));
  TrainedValues expected = TrainLocally(spec);
  // Biases, which begin at 0, are sums of gradients alone, and as near as these.
  const TrainedValues biases = TakeBiases(trained);
  ExpectClose(biases, TakeBiases(expected), 1e-5);
  ExpectClose(trained, expected, 1e-6);
}

TEST_P(EveryServedDivisionTest, BytesAlongEachAxisAreThosePredicted) {
  v1::JobSpec spec = Job(shape());
  spec.mutable_stop()->set_steps(2);
  ExpectPredictedTraffic(Divided(spec));
}

std::string NameOfServedDivision(const ::testing::TestParamInfo<ServedDivision>& info) {
  const auto& [shape, context, tensor, data, stages, zero, exchange] = info.param;
  return absl::StrCat(NameOf(shape), "_context", context, "_tensor", tensor, "_data", data,
                      "_stages", stages, "_zero", zero, "_",
                      Parallelism::ContextExchange_Name(exchange));
}

// Any two of shape, context, tensor, data, stages, ZeRO stage and exchange meet that may.
INSTANTIATE_TEST_SUITE_P(
    ContextServers, EveryServedDivisionTest,
    ::testing::Values(ServedDivision{Shape::kGpt2, 2, 1, 1, 1, 0, Parallelism::RING},
                      ServedDivision{Shape::kGpt2, 4, 2, 1, 1, 3, Parallelism::GATHER},
                      ServedDivision{Shape::kGpt2, 2, 2, 2, 2, 0, Parallelism::GATHER},
                      ServedDivision{Shape::kLlama, 2, 1, 2, 1, 3, Parallelism::RING},
                      ServedDivision{Shape::kLlama, 4, 1, 1, 2, 0, Parallelism::RING},
                      ServedDivision{Shape::kLlama, 4, 1, 2, 1, 0, Parallelism::GATHER},
                      ServedDivision{Shape::kLlama, 2, 2, 1, 1, 0, Parallelism::RING}),
    NameOfServedDivision);

class BothServedShapesTest : public ContextServersTest,
                             public ::testing::WithParamInterface<Shape> {};

// Sums are made in the same order.
TEST_P(BothServedShapesTest, EndsInTheBitsOfAllReduce) {
  v1::JobSpec spec = Job(GetParam());
  // Both roads measure it in an order of their own, and add up micro-batches of stage 3 in one.
  spec.clear_clipping();
  spec.clear_micro_batches();
  for (const uint32_t tensor : {1, 2}) {
    SCOPED_TRACE(tensor);
    const TrainedValues expected =
        ValuesByAllReduce(ByAllReduce(InContext(OnMesh(spec, tensor, 2), 2)));
    for (const uint32_t stage : {0, 3}) {
      EXPECT_EQ(ValuesOnServers(InContext(OnMesh(spec, tensor, 2, stage), 2)).values,
                expected.values)
          << stage;
    }
  }
}

TEST_P(BothServedShapesTest, SumsAreMadeInAnyOrder) {
  v1::JobSpec spec = Job(GetParam());
  spec.mutable_update()->set_deterministic(false);
  ExpectClose(ValuesOnServers(InContext(OnMesh(spec, 1, 2), 2)), TrainLocally(spec), 1e-5);
}

TEST_P(BothServedShapesTest, RecomputedActivationsEndInTheSameBits) {
  v1::JobSpec spec = InContext(OnMesh(Job(GetParam()), 1, 1), 2);
  const TrainedValues expected = ValuesOnServers(spec);
  for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    spec.mutable_compute()->set_recompute(recompute);
    EXPECT_EQ(ValuesOnServers(spec).values, expected.values) << recompute;
    ExpectPredictedTraffic(spec);
  }
}

TEST_P(BothServedShapesTest, DocumentsThatShareSequencesTrainAsInOneProcess) {
  const TempFolder documents;
  for (int i = 0; i < 240; ++i) {
    // Texts that are equal are read once.
    documents.Write(absl::StrCat(1000 + i),
                    absl::StrCat(i, " foxes jump over 17 dogs").substr(0, 4 + i % 17));
  }
  v1::JobSpec spec = Job(GetParam());
  spec.mutable_data()->mutable_sequences()->set_path(documents.path());
  const TrainedValues across = TrainLocally(spec);
  spec.mutable_data()->mutable_sequences()->set_packing(v1::SequenceData::WITHIN_DOCUMENTS);
  const TrainedValues expected = TrainLocally(spec);
  EXPECT_NE(across.values, expected.values);
  for (const auto exchange : {Parallelism::RING, Parallelism::GATHER}) {
    SCOPED_TRACE(exchange);
    ExpectClose(ValuesOnServers(InContext(OnMesh(spec, 1, 2), 2, exchange)), expected, 1e-5);
  }
}

// Padding has no labels, and context ranks have unequal numbers of them.
TEST_P(BothServedShapesTest, PaddedDocumentsCountTheirTokens) {
  const TempFolder documents;
  for (int i = 0; i < 240; ++i) {
    documents.Write(absl::StrCat(1000 + i),
                    absl::StrCat(i, " foxes jump over 17 dogs").substr(0, 4 + i % 20));
  }
  v1::JobSpec spec = Job(GetParam());
  v1::SequenceData& sequences = *spec.mutable_data()->mutable_sequences();
  sequences.set_path(documents.path());
  sequences.set_packing(v1::SequenceData::WHOLE_DOCUMENTS);
  ExpectClose(ValuesOnServers(InContext(OnMesh(spec, 1, 2), 2)), TrainLocally(spec), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(ContextServers, BothServedShapesTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama),
                         [](const auto& info) { return NameOf(info.param); });

TEST_F(ContextServersTest, EvaluationsCountEachExampleOnce) {
  v1::JobSpec spec = Job(Shape::kGpt2);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(3);
  const RunResult alone = TrainOnServers(OnMesh(spec, 1, 1), {});
  ASSERT_GT(alone.evaluated, 0u);
  for (const uint32_t stage : {0, 3}) {
    const RunResult run = TrainOnServers(InContext(OnMesh(spec, 1, 2, stage), 2), {});
    ASSERT_NO_FATAL_FAILURE(ExpectEvaluationsOf(alone, run));
    EXPECT_GT(run.counters[0].tensor_bytes_sent, 0u);
  }
}

// Also in a clock that is repeated after a loss.
TEST_F(ContextServersTest, RanksHaveOneLossScale) {
  const v1::JobSpec job = InFloat16(Job(Shape::kLlama), 12);
  const TrainedValues expected = TrainLocally(job);
  for (const uint32_t stage : {0, 3}) {
    SCOPED_TRACE(stage);
    const v1::JobSpec spec = InContext(OnMesh(job, 1, 2, stage), 2);
    const RunResult undisturbed = TrainOnServers(spec, {});
    ExpectClose(SameOfAllRanks(undisturbed), expected, 4e-3);
    const std::set<int> left_out = StepsLeftOut(spec, undisturbed);
    ASSERT_FALSE(left_out.empty());
    const int first = *left_out.begin();
    for (const HookCall& at :
         {HookCall{Hook::kGradientReady, first, 1}, HookCall{Hook::kEndStep, first, 1},
          HookCall{Hook::kBeginStep, first + 1, 1}}) {
      for (const uint32_t slot : {0, 1}) {
        ExpectLossIsRepaired(spec, {slot, at, /*takes_effect=*/true}, undisturbed.trained[0]);
      }
    }
  }
}

void ContextServersTest::ExpectLossesToBeRepaired(bool chosen) {
  constexpr HookCall kCalls[] = {{Hook::kBeginStep, 2, 1},      {Hook::kAcquire, 2, 2},
                                 {Hook::kBeforeBackward, 3, 1}, {Hook::kAcquire, 3, 5},
                                 {Hook::kGradientReady, 4, 2},  {Hook::kGradientReady, 4, 6},
                                 {Hook::kEndStep, 5, 1},        {Hook::kBeginStep, 6, 1}};
  constexpr uint32_t kSlots[] = {0, 1, 2, 3};
  for (const uint32_t stage : {0, 3}) {
    const v1::JobSpec spec = InContext(OnMesh(Job(Shape::kLlama), 1, 2, stage), 2);
    const TrainedValues expected = ValuesOnServers(spec);
    for (size_t call = 0; call < std::size(kCalls); ++call) {
      const HookCall& at = kCalls[call];
      for (const uint32_t slot : kSlots) {
        for (const bool takes_effect : {false, true}) {
          const size_t turn = call + (stage == 0 ? 0 : 1) + (takes_effect ? 2 : 0);
          if ((slot == turn % std::size(kSlots)) != chosen) continue;
          ExpectLossIsRepaired(spec, {slot, at, takes_effect}, expected);
        }
      }
    }
  }
}

// Dies before or after the call takes effect; its successor and its peers repeat the clock.
TEST_F(ContextServersTest, ALostRankIsReplacedAndTheClockRepeated) {
  ExpectLossesToBeRepaired(/*chosen=*/true);
}

TEST_F(ContextServersTest, ALostRankIsReplacedAndTheClockRepeatedExhaustive) {
  ExpectLossesToBeRepaired(/*chosen=*/false);
}

}  // namespace
}  // namespace muster
