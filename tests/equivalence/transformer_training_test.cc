// Transformers train alike in one process, on servers and by all-reduce: with dropout, whose masks
// follow the example and not who computes it, with micro-batches, and over a whole loss curve.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "common/plan/calls/step_traffic.h"
#include "gtest/gtest.h"
#include "tests/equivalence/step_observer.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"
#include "worker/nn/model.h"
#include "worker/runtime/training/prepared_job.h"

namespace muster {
namespace {

class TransformerTrainingTest : public ::testing::Test {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec = TinyJob("transformer", "adamw", WriteTinyText(folder_));
    spec.mutable_optimizer()->set_learning_rate(0.003);
    spec.mutable_model()->mutable_transformer()->set_dropout(0.1);
    spec.mutable_model()->mutable_transformer()->set_attention_dropout(0.1);
    return spec;
  }

  static v1::JobSpec ByAllReduce(v1::JobSpec spec) {
    spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_bucket_bytes(4096);
    return spec;
  }

  const TempFolder folder_;
};

void SetGpt2(v1::TransformerSpec& model) {
  model.set_norm(v1::TransformerSpec::LAYER_NORM);
  model.set_positions(v1::TransformerSpec::LEARNED);
  model.set_activation(v1::TransformerSpec::GELU);
  model.set_separate_head(false);
  model.set_no_biases(false);
  model.clear_kv_heads();
  model.clear_feed_forward();
}

void SetLlama(v1::TransformerSpec& model) {
  model.set_norm(v1::TransformerSpec::RMS_NORM);
  model.set_positions(v1::TransformerSpec::ROTARY);
  model.set_activation(v1::TransformerSpec::SWIGLU);
  model.set_separate_head(true);
  model.set_no_biases(true);
}

// GPT-2's shape and Llama's, with all of AdamW's usual values.
class TransformerShapesTest : public TransformerTrainingTest,
                              public ::testing::WithParamInterface<std::string> {
 protected:
  v1::JobSpec ShapedJob() {
    v1::JobSpec spec = Job();
    spec.mutable_optimizer()->clear_epsilon();
    v1::TransformerSpec& model = *spec.mutable_model()->mutable_transformer();
    GetParam() == "gpt2" ? SetGpt2(model) : SetLlama(model);
    return spec;
  }

  // Takes the keys' third out of the biases of queries, keys and values. What it adds to a query's
  // products with its keys is the same for all of them, and softmax does not see what all have in
  // common: its gradient is zero. Rounding leaves something of another size and sign on each road,
  // which AdamW divides by about as much. So it only has to have stayed near the 0 that it began
  // at, from where any gradient to speak of takes 50 steps of 0.003 each as far as 0.15.
  void LeaveOutBiasesOfKeys(TrainedValues& trained) {
    int found = 0;
    for (auto& [name, values] : trained.values) {
      if (!absl::EndsWith(name, ".qkv.bias")) continue;
      ++found;
      ASSERT_EQ(values.size() % 3, 0) << name;
      const auto begin = values.begin() + values.size() / 3;
      const auto end = begin + values.size() / 3;
      for (auto value = begin; value != end; ++value) EXPECT_NEAR(*value, 0, 1e-3) << name;
      values.erase(begin, end);
    }
    EXPECT_EQ(found, GetParam() == "gpt2" ? 2 : 0);
  }

  // Of all roads, every tensor.
  void ExpectTheSameWeights(const v1::JobSpec& spec) {
    TrainedValues expected = TrainLocally(spec);
    LeaveOutBiasesOfKeys(expected);
    for (const RunResult& run :
         {TrainOnServers(spec, {}), TrainByAllReduce(ByAllReduce(spec), {})}) {
      TrainedValues trained = run.trained[0];
      LeaveOutBiasesOfKeys(trained);
      ExpectClose(trained, expected, 1e-5);
    }
  }

  static void ExpectSameCurve(const LossCurve& actual, const LossCurve& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& point : expected) {
      ASSERT_EQ(actual.count(point.first), 1) << point.first;
      EXPECT_NEAR(actual.at(point.first), point.second, 1e-4) << "step " << point.first;
    }
  }
};

TEST_P(TransformerShapesTest, TheLossCurveOfTwoHundredSteps) {
  v1::JobSpec spec = ShapedJob();
  spec.mutable_stop()->set_steps(200);
  spec.set_batch_size(15);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(10);
  LossCurve expected;
  TrainLocally(spec, &expected);
  ASSERT_EQ(expected.size(), 20);
  EXPECT_LT(expected.at(200), 0.4 * expected.at(10));
  ExpectSameCurve(TrainOnServers(spec, {}).curve, expected);
  ExpectSameCurve(TrainByAllReduce(ByAllReduce(spec), {}).curve, expected);
}

TEST_P(TransformerShapesTest, TheWeightsOfFiftySteps) { ExpectTheSameWeights(ShapedJob()); }

TEST_P(TransformerShapesTest, MixturesOfSources) {
  v1::JobSpec spec = ShapedJob();
  const std::string text = spec.data().sequences().path();
  const std::string other = folder_.path() + "/other";
  std::ofstream(other) << std::string(600, 'x') << std::string(600, 'y');
  v1::MixtureData& mixture = *spec.mutable_data()->mutable_mixture();
  for (const std::string& path : {text, other}) {
    v1::MixtureSource& source = *mixture.add_sources();
    source.set_name(path == text ? "text" : "other");
    source.mutable_sequences()->set_path(path);
    source.set_weight(2);
  }
  v1::MixtureChange& change = *mixture.add_changes();
  change.set_step(20);
  (*change.mutable_weights())["other"] = 0.5;
  ExpectTheSameWeights(spec);
}

TEST_P(TransformerShapesTest, MicroBatchesAndClipping) {
  v1::JobSpec spec = ShapedJob();
  spec.set_micro_batches(3);
  spec.mutable_clipping()->set_by_global_norm(0.5);
  ExpectTheSameWeights(spec);
}

TEST_P(TransformerShapesTest, RecomputationChangesNoBit) {
  v1::JobSpec spec = ShapedJob();
  const TrainedValues expected = TrainLocally(spec);
  for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    spec.mutable_compute()->set_recompute(recompute);
    EXPECT_EQ(TrainLocally(spec).values, expected.values) << recompute;
  }
}

// Every gradient and every step's sums, in order.
class StepRecorder final : public StepObserver {
 public:
  // The first unit's gradients are the last ones.
  void GradientReady(uint32_t slot, uint64_t clock, int unit, float loss_scale,
                     GradientSpans gradients) override {
    if (unit > 0) return;
    for (const absl::Span<float> values : gradients) {
      values_.insert(values_.end(), values.begin(), values.end());
    }
  }
  void StepEnded(uint32_t slot, uint64_t clock, const StepSums& sums) override {
    losses_.push_back(sums.loss_sum);
  }

  const std::vector<float>& values() const { return values_; }
  const std::vector<double>& losses() const { return losses_; }

 private:
  std::vector<float> values_;
  std::vector<double> losses_;
};

TEST_P(TransformerShapesTest, PlansChangeNoBitOfAnyGradient) {
  v1::JobSpec spec = ShapedJob();
  spec.mutable_stop()->set_steps(3);
  spec.set_micro_batches(3);
  const auto expect_same = [&spec] {
    StepRecorder expected;
    TrainAlone(spec, {.observer = &expected});
    EXPECT_EQ(expected.losses().size(), 3);
    for (const StageOrder order : {StageOrder::kZeroBubble, StageOrder::kGPipe}) {
      StepRecorder recorder;
      TrainAlone(spec, {.observer = &recorder, .order = order});
      EXPECT_EQ(recorder.values(), expected.values());
      EXPECT_EQ(recorder.losses(), expected.losses());
    }
  };
  // Without dropout, the gradient of a branch is in f32 that of the stream.
  for (const float dropout : {0.0f, 0.1f}) {
    spec.mutable_model()->mutable_transformer()->set_dropout(dropout);
    for (const auto type : {v1::ComputeSpec::F32, v1::ComputeSpec::BF16, v1::ComputeSpec::F16}) {
      for (const auto recompute :
           {v1::ComputeSpec::NONE, v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
        SCOPED_TRACE(absl::StrCat("dropout ", dropout, ", type ", type, ", recompute ", recompute));
        spec.mutable_compute()->set_type(type);
        spec.mutable_compute()->set_recompute(recompute);
        expect_same();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, TransformerShapesTest, ::testing::Values("gpt2", "llama"),
                         [](const auto& info) { return info.param; });

// A master weight that differs in its last bit can round to another bf16, so runs that sum in other
// orders part by a few bf16 roundings.
TEST_F(TransformerTrainingTest, Bf16) {
  v1::JobSpec spec = Job();
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::SELECTIVE);
  const TrainedValues expected = TrainLocally(spec);
  ExpectClose(TrainOnServers(spec, {}).trained[0], expected, 2e-2);
  ExpectClose(TrainByAllReduce(ByAllReduce(spec), {}).trained[0], expected, 2e-2);
}

// Servers round what workers compute with, and by all-reduce each worker does: to the same bits.
TEST_P(TransformerShapesTest, WeightsThatComeRoundedTrainAlike) {
  v1::JobSpec spec = ShapedJob();
  spec.clear_evaluation();
  spec.mutable_stop()->set_steps(20);
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  spec.mutable_update()->set_deterministic(true);
  for (const int micro_batches : {1, 2}) {
    spec.set_micro_batches(micro_batches);
    const RunResult on_servers = TrainOnServers(spec, {});
    EXPECT_EQ(on_servers.trained[0].values,
              TrainByAllReduce(ByAllReduce(spec), {}).trained[0].values);
    const absl::StatusOr<PreparedJob> job = PrepareJob(spec);
    ASSERT_EQ(job.status(), absl::OkStatus());
    const auto predicted =
        PredictServerTraffic(*job->schema, {}, spec, AllReduceWay::kSharedMemory);
    ASSERT_EQ(predicted.status(), absl::OkStatus());
    const auto steps = static_cast<double>(job->total_steps);
    EXPECT_LT(predicted->workers[0].received, 0.8 * predicted->workers[0].sent);
    EXPECT_EQ(on_servers.counters[0].bytes_pulled, predicted->workers[0].received * steps);
    EXPECT_EQ(on_servers.counters[0].bytes_pushed, predicted->workers[0].sent * steps);
  }
}

}  // namespace
}  // namespace muster
