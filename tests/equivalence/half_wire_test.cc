// Gradients and parameters that travel as halves: training learns as it does with f32, repeats bit
// for bit, and survives the loss of tasks.
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/checkpoint/checkpoint_reader.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "tests/equivalence/dying_strategy.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"
#include "tests/harness/jobs.h"

namespace muster {
namespace {

using Wire = v1::UpdateSpec::WireType;

class HalfWireTest : public ::testing::TestWithParam<std::tuple<std::string, Wire>> {
 protected:
  v1::JobSpec Job(const std::string& optimizer) {
    return TinyJob(std::get<0>(GetParam()), optimizer, WriteTinyText(folder_));
  }
  Wire wire() const { return std::get<1>(GetParam()); }
  double precision() const { return wire() == v1::UpdateSpec::BF16 ? 0x1p-8 : 0x1p-11; }

  const TempFolder folder_;
};

TEST_P(HalfWireTest, StaysWithinRoundingOfF32AtHalfTheBytes) {
  v1::JobSpec spec = Job("momentum");
  const TrainedValues expected = TrainLocally(spec);
  RunOptions options;
  options.keys = expected.keys;
  const RunResult full = TrainOnServers(spec, options);
  spec.mutable_update()->set_wire(wire());
  const RunResult half = TrainOnServers(spec, options);
  // What is read at the end is rounded once more.
  ExpectClose(half.trained[0], expected, 8 * precision());
  const StrategyCounters& f32 = full.counters[0];
  const StrategyCounters& sent = half.counters[0];
  // Keys stay as long as they were.
  const uint64_t keys = 2 * sent.bytes_pushed - f32.bytes_pushed;
  EXPECT_EQ(2 * sent.bytes_pulled, f32.bytes_pulled);
  EXPECT_LE(keys, 2 * sent.other_bytes_sent - f32.other_bytes_sent);
  EXPECT_LT(sent.bytes_pushed, f32.bytes_pushed);
}

TEST_P(HalfWireTest, RepeatsBitForBit) {
  v1::JobSpec spec = Job("adam");
  spec.mutable_update()->set_wire(wire());
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_clipping()->set_by_global_norm(0.5);
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const TrainedValues first = TrainOnServers(spec, options).trained[0];
  ASSERT_FALSE(first.values.empty());
  EXPECT_EQ(TrainOnServers(spec, options).trained[0].values, first.values);
}

// A task that takes a slot over owes nothing, and repeats a clock with other values than the ones
// that are in already: each partition keeps the first, so the job moves by a rounding step at most.
TEST_P(HalfWireTest, TakenOverSlotsChangeNoMoreThanRounding) {
  v1::JobSpec spec = Job("sgd");
  spec.mutable_stop()->set_steps(12);
  spec.mutable_update()->set_wire(wire());
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const TrainedValues undisturbed = TrainOnServers(spec, options).trained[0];
  // Before a step's first push, after it, and after its close; a first step owes nothing yet.
  for (const HookCall& at : {HookCall{Hook::kBeforeBackward, 2}, HookCall{Hook::kGradientReady, 2},
                             HookCall{Hook::kEndStep, 2}, HookCall{Hook::kGradientReady, 4}}) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(at.hook) << " of step " << at.step);
    options.deaths = {{0, at, true}, {1, at, false}};
    const RunResult run = TrainOnServers(spec, options);
    ExpectClose(run.trained[0], undisturbed, 4 * precision());
    EXPECT_EQ(run.trained[1].values, run.trained[0].values);
  }
}

TEST_P(HalfWireTest, ARestoredJobGoesOnWithItsResiduals) {
  v1::JobSpec spec = Job("adam");
  spec.mutable_stop()->set_steps(20);
  spec.mutable_update()->set_wire(wire());
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_checkpoint()->set_every_steps(8);
  RunCheckpoints checkpoints;
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  options.checkpoints = &checkpoints;
  const TrainedValues undisturbed = TrainOnServers(spec, options).trained[0];
  ASSERT_FALSE(undisturbed.values.empty());
  const auto reader = CheckpointReader::Open(checkpoints.storage(), checkpoints.At(8)).value();
  for (const std::string slot : {"0", "1"}) {
    double owed = 0;
    for (const auto& tensor : reader->manifest().schema().tensors()) {
      if (!tensor.tied_to().empty()) continue;
      std::vector<float> residual(1);
      const absl::Status status = reader->ReadTensor("residual/" + slot + "/" + tensor.name(), "",
                                                     0, absl::MakeSpan(residual));
      ASSERT_EQ(status, absl::OkStatus());
      owed += std::fabs(residual[0]);
    }
    EXPECT_GT(owed, 0);
  }

  // On other partitions too: with one rounding error less the bits would differ.
  options.from = 8;
  spec.mutable_update()->set_partitions(5);
  EXPECT_EQ(TrainOnServers(spec, options).trained[0].values, undisturbed.values);
  // Another number of workers owes the same sum, but rounds other gradients.
  spec.set_workers(3);
  ExpectClose(TrainOnServers(spec, options).trained[0], undisturbed, 0.1);
}

TEST_P(HalfWireTest, LearnsUnderAnyStaleness) {
  v1::JobSpec spec = Job("sgd");
  const TrainedValues expected = TrainLocally(spec);
  spec.mutable_update()->set_wire(wire());
  RunOptions options;
  options.keys = expected.keys;
  for (const bool asynchronous : {false, true}) {
    spec.mutable_update()->set_unlimited_staleness(asynchronous);
    spec.mutable_update()->set_staleness_bound(asynchronous ? 0 : 2);
    // How far an asynchronous run goes astray depends on how busy the machine is.
    ExpectClose(TrainOnServers(spec, options).trained[0], expected, asynchronous ? 0.2 : 0.1);
  }
}

using ModelAndWire = std::tuple<std::string, Wire>;

std::string NameOfWire(const ::testing::TestParamInfo<ModelAndWire>& info) {
  return std::get<0>(info.param) + "_" + v1::UpdateSpec::WireType_Name(std::get<1>(info.param));
}

// Both types with the transformer and with models of rows.
INSTANTIATE_TEST_SUITE_P(EveryModel, HalfWireTest,
                         ::testing::Values(ModelAndWire{"logistic_regression", v1::UpdateSpec::F16},
                                           ModelAndWire{"mlp", v1::UpdateSpec::BF16},
                                           ModelAndWire{"ngram", v1::UpdateSpec::F16},
                                           ModelAndWire{"deep_fm", v1::UpdateSpec::BF16},
                                           ModelAndWire{"transformer", v1::UpdateSpec::BF16},
                                           ModelAndWire{"transformer", v1::UpdateSpec::F16}),
                         NameOfWire);
INSTANTIATE_TEST_SUITE_P(ExhaustiveEveryModel, HalfWireTest,
                         ::testing::Values(ModelAndWire{"logistic_regression",
                                                        v1::UpdateSpec::BF16},
                                           ModelAndWire{"mlp", v1::UpdateSpec::F16},
                                           ModelAndWire{"ngram", v1::UpdateSpec::BF16},
                                           ModelAndWire{"deep_fm", v1::UpdateSpec::F16}),
                         NameOfWire);

// Reads digits within half a point of f32, as means over so many seeds.
void ExpectMnistToBeReadAsWell(int seeds) {
  if (SharedData().empty()) {
    GTEST_SKIP() << "the real data sets are not at hand: MUSTER_SHARED_DATA names no folder";
  }
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    model { mlp { hidden: 256 classes: 10 } }
    data { holdout: 0.2 }
    optimizer { name: "sgd" learning_rate: 0.2 }
    update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER partitions: 4 block_bytes: 65536 }
    workers: 2
    batch_size: 64
    stop { epochs: 5 }
  )pb");
  spec.mutable_data()->mutable_idx()->set_images(SharedData() + "/t10k-images-idx3-ubyte.gz");
  spec.mutable_data()->mutable_idx()->set_labels(SharedData() + "/t10k-labels-idx1-ubyte.gz");
  std::map<Wire, double> accuracy;
  for (const Wire wire : {v1::UpdateSpec::F32, v1::UpdateSpec::BF16, v1::UpdateSpec::F16}) {
    spec.mutable_update()->set_wire(wire);
    for (int seed = 1; seed <= seeds; ++seed) {
      spec.set_seed(seed);
      const RunResult run = TrainOnServers(spec, {});
      ASSERT_EQ(run.evaluated, 2000u);
      accuracy[wire] += static_cast<double>(run.correct) / 2000 / seeds;
    }
    std::cout << v1::UpdateSpec::WireType_Name(wire) << ": " << accuracy[wire] << std::endl;
  }
  EXPECT_GE(accuracy[v1::UpdateSpec::F32], 0.94);
  EXPECT_NEAR(accuracy[v1::UpdateSpec::BF16], accuracy[v1::UpdateSpec::F32], 0.005);
  EXPECT_NEAR(accuracy[v1::UpdateSpec::F16], accuracy[v1::UpdateSpec::F32], 0.005);
}

TEST(HalfWireLearningTest, MnistIsReadAsWell) { ExpectMnistToBeReadAsWell(/*seeds=*/1); }

TEST(HalfWireLearningTest, MnistIsReadAsWellExhaustive) { ExpectMnistToBeReadAsWell(/*seeds=*/2); }

}  // namespace
}  // namespace muster
