// Jobs on servers whose workers share out experts: in the bits of all-reduce, in any order of sums,
// in f16, and through losses. expert_training_test.cc compares their meshes with one process.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/expected_traffic.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

class ExpertServersTest : public ::testing::Test {
 protected:
  // Returns TensorJob with 8 experts, in 6 steps of two micro-batches.
  v1::JobSpec Job() {
    v1::JobSpec spec = TensorJob(TensorShape::kExperts, folder_);
    v1::TransformerSpec& model = *spec.mutable_model()->mutable_transformer();
    model.set_context(24);
    model.mutable_moe()->set_experts(8);
    spec.set_micro_batches(2);
    spec.mutable_stop()->set_steps(6);
    return spec;
  }
  static v1::JobSpec OnExperts(v1::JobSpec spec, uint32_t expert) {
    spec.mutable_parallelism()->set_expert(expert);
    return spec;
  }

  // Loses ranks in a part of all ways, in which any two of stage, slot, hook and effect meet, or in
  // the others.
  void ExpectLossesToBeRepaired(bool chosen);

  const TempFolder folder_;
};

// Sums are made in the same order, those of experts over the ranks that have them.
TEST_F(ExpertServersTest, EndsInTheBitsOfAllReduce) {
  v1::JobSpec spec = Job();
  // Both roads measure it in an order of their own, and add up micro-batches of stage 3 in one.
  spec.clear_clipping();
  spec.clear_micro_batches();
  for (const uint32_t tensor : {1, 2}) {
    SCOPED_TRACE(tensor);
    const v1::JobSpec mesh = OnExperts(InContext(OnMesh(spec, tensor, 2), 2), tensor == 1 ? 2 : 4);
    const TrainedValues expected = ValuesByAllReduce(ByAllReduce(mesh));
    EXPECT_EQ(ValuesOnServers(mesh).values, expected.values);
    v1::JobSpec in_flight = mesh;
    in_flight.mutable_parallelism()->mutable_zero()->set_stage(3);
    EXPECT_EQ(ValuesOnServers(in_flight).values, expected.values);
  }
}

TEST_F(ExpertServersTest, SumsAreMadeInAnyOrder) {
  v1::JobSpec spec = Job();
  spec.mutable_update()->set_deterministic(false);
  ExpectClose(ValuesOnServers(OnExperts(OnMesh(spec, 1, 4), 2)), TrainLocally(spec), 1e-5);
}

TEST_F(ExpertServersTest, EvaluationsCountEachExampleOnce) {
  v1::JobSpec spec = Job();
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(3);
  const RunResult alone = TrainOnServers(OnMesh(spec, 1, 1), {});
  ASSERT_GT(alone.evaluated, 0u);
  for (const uint32_t stage : {0, 3}) {
    const RunResult run = TrainOnServers(OnExperts(OnMesh(spec, 1, 4, stage), 2), {});
    ASSERT_NO_FATAL_FAILURE(ExpectEvaluationsOf(alone, run));
    EXPECT_GT(run.counters[0].tensor_bytes_sent, 0u);
  }
}

// Workers pull those values that they compute with in 16 bits so.
TEST_F(ExpertServersTest, ExpertsOf16BitsArePulledSo) {
  v1::JobSpec spec = OnExperts(OnMesh(Job(), 1, 4), 2);
  spec.mutable_stop()->set_steps(2);
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  ExpectPredictedTraffic(spec);
  const TrainedValues expected = SameOfAllRanks(TrainByAllReduce(ByAllReduce(spec), {}));
  ExpectClose(ValuesOnServers(spec), expected, 1e-5);
}

// Also in a clock that is repeated after a loss.
TEST_F(ExpertServersTest, RanksLeaveOutTheSameSteps) {
  const v1::JobSpec job = InFloat16(Job(), 12);
  for (const uint32_t stage : {0, 3}) {
    SCOPED_TRACE(stage);
    const v1::JobSpec spec = OnExperts(OnMesh(job, 1, 4, stage), 2);
    const RunResult undisturbed = TrainOnServers(spec, {});
    const std::set<int> left_out = StepsLeftOut(spec, undisturbed);
    ASSERT_FALSE(left_out.empty());
    const int first = *left_out.begin();
    const HookCall calls[] = {{Hook::kGradientReady, first, 1}, {Hook::kEndStep, first, 1}};
    for (const uint32_t slot : {0, 3}) {
      const HookCall& at = calls[(slot + stage) % 2];
      ExpectLossIsRepaired(spec, {slot, at, /*takes_effect=*/true}, SameOfAllRanks(undisturbed));
    }
  }
}

// Losses of ranks whose experts another data rank has, too, or, with stage 3, nobody else.
void ExpertServersTest::ExpectLossesToBeRepaired(bool chosen) {
  constexpr HookCall kCalls[] = {{Hook::kBeginStep, 2, 1},      {Hook::kAcquire, 2, 2},
                                 {Hook::kBeforeBackward, 3, 1}, {Hook::kGradientReady, 4, 2},
                                 {Hook::kEndStep, 5, 1},        {Hook::kBeginStep, 6, 1}};
  constexpr uint32_t kSlots[] = {0, 1, 2, 3};
  for (const uint32_t stage : {0, 3}) {
    v1::JobSpec spec = OnExperts(OnMesh(Job(), 1, 4, stage), stage == 0 ? 2 : 4);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    const TrainedValues expected = ValuesOnServers(spec);
    for (size_t call = 0; call < std::size(kCalls); ++call) {
      for (const uint32_t slot : kSlots) {
        for (const bool takes_effect : {false, true}) {
          const size_t turn = call + (stage == 0 ? 0 : 1) + (takes_effect ? 2 : 0);
          const bool is_chosen =
              slot == turn % std::size(kSlots) && takes_effect == (call % 2 == 0);
          if (is_chosen != chosen) continue;
          ExpectLossIsRepaired(spec, {slot, kCalls[call], takes_effect}, expected);
        }
      }
    }
  }
}

// Dies before or after the call takes effect; its successor and all that share out experts with it
// repeat the clock.
TEST_F(ExpertServersTest, ALostRankIsReplacedAndTheClockRepeated) {
  ExpectLossesToBeRepaired(/*chosen=*/true);
}

TEST_F(ExpertServersTest, ALostRankIsReplacedAndTheClockRepeatedExhaustive) {
  ExpectLossesToBeRepaired(/*chosen=*/false);
}

// All ranks count choices together, and repeat the clock together, even without expert ranks.
TEST_F(ExpertServersTest, RanksThatCountTogetherRepeatTheClockTogether) {
  v1::JobSpec spec = Job();
  v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
  moe.set_auxiliary_scope(v1::MoeSpec::GLOBAL_BATCH);
  moe.set_auxiliary_loss(1);
  moe.set_capacity_factor(0.75f);
  spec.clear_clipping();
  spec.clear_micro_batches();
  for (const v1::JobSpec& mesh : {OnMesh(spec, 1, 3), OnExperts(OnMesh(spec, 1, 4, 3), 2)}) {
    const TrainedValues expected = ValuesOnServers(mesh);
    v1::JobSpec by_all_reduce = ByAllReduce(mesh);
    by_all_reduce.mutable_parallelism()->clear_zero();
    EXPECT_EQ(ValuesByAllReduce(by_all_reduce).values, expected.values);
    for (const HookCall& at : {HookCall{Hook::kGradientReady, 3, 2}, HookCall{Hook::kEndStep, 4, 1},
                               HookCall{Hook::kBeginStep, 5, 1}}) {
      ExpectLossIsRepaired(mesh, {/*slot=*/1, at, /*takes_effect=*/true}, expected);
    }
  }
}

}  // namespace
}  // namespace muster
