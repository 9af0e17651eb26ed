// Jobs that train adapters, or some of a model's tensors, train as one process does, on every mesh,
// in every stage of ZeRO and on both roads; and frozen tensors stay as they are.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "common/job/validation/job_validator.h"
#include "common/partition/tensor_spec.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

using Shape = TensorShape;
using Parallelism = v1::ParallelismSpec;

class AdapterTrainingTest : public ::testing::TestWithParam<Shape> {
 protected:
  // Returns a job of three blocks in four micro-batches and eight clipped steps.
  v1::JobSpec Job() {
    v1::JobSpec spec = PipelineJob(GetParam(), folder_);
    spec.mutable_stop()->set_steps(8);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    return spec;
  }

  // Returns it with adapters of all layers.
  v1::JobSpec AdaptedJob() {
    v1::JobSpec spec = Job();
    v1::AdapterSpec& adapter = *spec.mutable_adapter();
    adapter.set_rank(3);
    adapter.set_alpha(6);
    for (const char* target : {"query", "key", "value", "output", "up", "down"}) {
      adapter.add_targets(target);
    }
    if (GetParam() == Shape::kLlama) adapter.add_targets("gate");
    // Adapters' first matrices have small gradients before the second ones have grown from 0, of
    // which momentum makes small steps.
    if (GetParam() == Shape::kGpt2) {
      spec.mutable_optimizer()->set_learning_rate(20 * spec.optimizer().learning_rate());
    }
    return spec;
  }

  // Returns it with some tensors frozen, and others in groups of their own.
  v1::JobSpec GroupedJob() {
    v1::JobSpec spec = Job();
    v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
    v1::ParameterGroup& frozen = *optimizer.add_groups();
    for (const char* name : {"embedding.weight", "block1.*", "block2.norm*"}) {
      frozen.add_names(name);
    }
    frozen.set_frozen(true);
    v1::ParameterGroup& fast = *optimizer.add_groups();
    fast.add_names("block*.up.weight");
    fast.set_rate(3);
    fast.set_weight_decay(0.25);
    v1::ParameterGroup& decays = *optimizer.add_groups();
    decays.add_names("*norm*");
    decays.set_weight_decay(0.5);
    return spec;
  }

  static bool IsFrozen(const v1::JobSpec& spec, const std::string& tensor) {
    if (spec.has_adapter()) return !IsAdapter(tensor);
    const bool tied = !spec.model().transformer().separate_head();
    return (tied && tensor == "head.weight") || tensor == "embedding.weight" ||
           absl::StartsWith(tensor, "block1.") || absl::StartsWith(tensor, "block2.norm");
  }

  // Expects the values that one process ends with, of frozen tensors the same bits.
  static void ExpectTrained(const v1::JobSpec& spec, const TrainedValues& trained,
                            const TrainedValues& expected) {
    ExpectClose(trained, expected, 1e-5);
    for (const auto& [name, values] : expected.values) {
      if (IsFrozen(spec, name)) EXPECT_EQ(trained.values.at(name), values) << name;
    }
  }

  const TempFolder folder_;
};

TEST_P(AdapterTrainingTest, FrozenTensorsStayAndOthersMove) {
  for (v1::JobSpec spec : {AdaptedJob(), GroupedJob()}) {
    // Every tensor is to make a step that it can be told by.
    spec.clear_clipping();
    const TrainedValues trained = TrainLocally(spec);
    spec.mutable_stop()->set_steps(1);
    const TrainedValues before = TrainLocally(spec);
    int frozen = 0, moved = 0;
    for (const auto& [name, values] : trained.values) {
      if (IsFrozen(spec, name)) {
        ++frozen;
        EXPECT_EQ(values, before.values.at(name)) << name;
      } else {
        ++moved;
        EXPECT_NE(values, before.values.at(name)) << name;
      }
    }
    EXPECT_GT(frozen, 0);
    EXPECT_GT(moved, 0);
  }
}

TEST_P(AdapterTrainingTest, DataRanksTrainAsOneProcess) {
  for (v1::JobSpec spec : {AdaptedJob(), GroupedJob()}) {
    if (spec.has_adapter()) spec.mutable_adapter()->set_dropout(0.2);
    const TrainedValues expected = TrainLocally(spec);
    for (const uint32_t stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(stage);
      ExpectTrained(spec, ValuesByAllReduce(ByAllReduce(OnMesh(spec, 1, 2, stage))), expected);
    }
    // Two shard groups, which are replicas.
    ExpectTrained(spec, ValuesByAllReduce(ByAllReduce(OnMesh(spec, 1, 4, 2, /*shard=*/2))),
                  expected);
    for (const uint32_t stage : {0, 3}) {
      SCOPED_TRACE(stage);
      ExpectTrained(spec, ValuesOnServers(OnMesh(spec, 1, 2, stage)), expected);
    }
  }
}

TEST_P(AdapterTrainingTest, TensorRanksTrainAsOneProcess) {
  for (const v1::JobSpec& spec : {AdaptedJob(), GroupedJob()}) {
    const TrainedValues expected = TrainLocally(spec);
    for (const uint32_t stage : {0, 1, 3}) {
      SCOPED_TRACE(stage);
      const v1::JobSpec divided = OnMesh(spec, 2, 2, stage);
      ExpectTrained(spec, ValuesByAllReduce(ByAllReduce(divided)), expected);
    }
    ExpectTrained(spec, ValuesByAllReduce(ByAllReduce(WithoutSequence(OnMesh(spec, 4, 1)))),
                  expected);
    ExpectTrained(spec, ValuesOnServers(OnMesh(spec, 2, 2)), expected);
    ExpectTrained(spec, ValuesOnServers(OnMesh(spec, 2, 1, 3)), expected);
    ExpectTrained(spec, ValuesOnServers(WithoutSequence(OnMesh(spec, 2, 1))), expected);
  }
}

TEST_P(AdapterTrainingTest, ContextRanksTrainAsOneProcess) {
  for (v1::JobSpec spec : {AdaptedJob(), GroupedJob()}) {
    if (spec.has_adapter()) spec.mutable_adapter()->set_dropout(0.2);
    const TrainedValues expected = TrainLocally(spec);
    for (const auto exchange : {Parallelism::RING, Parallelism::HEADS}) {
      SCOPED_TRACE(exchange);
      const v1::JobSpec divided = InContext(OnMesh(spec, 1, 4, 1), 2, exchange);
      if (!ValidateJob(ByAllReduce(divided)).ok()) continue;
      ExpectTrained(spec, ValuesByAllReduce(ByAllReduce(divided)), expected);
      ExpectTrained(spec, ValuesOnServers(InContext(OnMesh(spec, 1, 2), 2, exchange)), expected);
    }
  }
}

TEST_P(AdapterTrainingTest, StagesTrainAsOneProcess) {
  for (const v1::JobSpec& spec : {AdaptedJob(), GroupedJob()}) {
    const TrainedValues expected = TrainLocally(spec);
    for (const auto schedule : {Parallelism::ONE_F_ONE_B, Parallelism::ZERO_BUBBLE}) {
      SCOPED_TRACE(schedule);
      ExpectTrained(spec,
                    ValuesByAllReduce(ByAllReduce(InPipeline(OnMesh(spec, 2, 1), 2, schedule))),
                    expected);
      ExpectTrained(spec, ValuesOnServers(InPipeline(OnMesh(spec, 1, 2), 2, schedule)), expected);
    }
  }
}

TEST_P(AdapterTrainingTest, RanksComputeInSixteenBitsAlike) {
  v1::JobSpec spec = AdaptedJob();
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  const TrainedValues expected = ValuesByAllReduce(ByAllReduce(OnMesh(spec, 1, 2)));
  EXPECT_EQ(ValuesByAllReduce(ByAllReduce(OnMesh(spec, 1, 2, 1))).values, expected.values);
  EXPECT_EQ(ValuesOnServers(OnMesh(spec, 1, 2)).values, expected.values);
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
  EXPECT_EQ(ValuesByAllReduce(ByAllReduce(OnMesh(spec, 1, 2))).values, expected.values);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AdapterTrainingTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace muster
