// Steps of a job on one device, emulated here and, in tests/gpu, a GPU: they compute what the CPU's
// model and optimizer compute.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/device/device.h"
#include "common/partition/initial_values.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/data/packed_batches_for_testing.h"
#include "worker/runtime/device/cpu_reference_for_testing.h"
#include "worker/runtime/device/device_rank_for_testing.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocabulary = 37;
constexpr int64_t kLength = 9;

const char kGpt2[] = "layers: 2 width: 32 heads: 2 context: 9";
const char kLlama[] =
    "layers: 2 width: 32 heads: 4 kv_heads: 2 feed_forward: 40 context: 9 norm: RMS_NORM "
    "positions: ROTARY activation: SWIGLU separate_head: true no_biases: true";
// A shape with all that attention of newer models has.
const char kModern[] =
    "layers: 2 width: 32 heads: 4 kv_heads: 2 head_width: 16 feed_forward: 40 context: 9 norm: "
    "RMS_NORM positions: ROTARY activation: SWIGLU separate_head: true no_biases: true "
    "attention_biases: true query_key_norm: PER_HEAD sliding_window: 4 rotary_scaling { type: "
    "LLAMA3 factor: 8 original_context: 64 }";
const char kOdd[] =
    "layers: 1 width: 48 heads: 3 kv_heads: 1 feed_forward: 23 context: 9 separate_head: true";

// Micro-batches have at most 3 sequences.
v1::JobSpec Job(const std::string& shape, const std::string& compute) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("model { transformer { ", shape, " } } compute { device: CUDA ", compute, " } ",
                   R"pb(
                     update { dense: ALL_REDUCE sparse: ALL_REDUCE }
                     optimizer { name: "adamw" learning_rate: 0.01 weight_decay: 0.1 }
                     workers: 1
                     batch_size: 3
                     # CpuReference's key of dropout.
                     seed: 5
                   )pb"),
      &spec));
  return spec;
}

class DeviceStepsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = OpenDevice(0);
    if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status();
  }

  // Returns a rank with the reference's weights; null, and a failed test, after an error.
  static std::unique_ptr<DeviceRank> Make(const v1::JobSpec& job, CpuReference& reference) {
    auto rank = DeviceRank::Create(job, kVocabulary);
    EXPECT_TRUE(rank.ok()) << rank.status();
    if (!rank.ok()) return nullptr;
    EXPECT_EQ((*rank)->SetWeights(reference.weights()), absl::OkStatus());
    return *std::move(rank);
  }

  static std::vector<std::vector<float>> Weights(DeviceRank& rank) {
    auto weights = rank.Weights();
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *std::move(weights) : std::vector<std::vector<float>>();
  }

  static std::vector<std::vector<float>> Gradients(DeviceRank& rank) {
    auto gradients = rank.Gradients();
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return gradients.ok() ? *std::move(gradients) : std::vector<std::vector<float>>();
  }

  static std::vector<float> Joined(const std::vector<std::vector<float>>& tensors) {
    std::vector<float> all;
    for (const std::vector<float>& tensor : tensors) {
      all.insert(all.end(), tensor.begin(), tensor.end());
    }
    return all;
  }

  static void ExpectGradients(DeviceRank& rank, const CpuReference& reference, double bound) {
    const std::vector<std::vector<float>> gradients = Gradients(rank);
    ASSERT_EQ(gradients.size(), reference.gradients().size());
    for (size_t t = 0; t < gradients.size(); ++t) {
      ASSERT_EQ(gradients[t].size(), reference.gradients()[t].size());
      const std::string& name = reference.tensors()[t].name;
      // In 16 bits: sums over all tokens and heads of products that nearly cancel.
      const bool of_heads =
          absl::EndsWith(name, "query_norm.weight") || absl::EndsWith(name, "key_norm.weight");
      EXPECT_LE(RelativeDistance(gradients[t], reference.gradients()[t]),
                of_heads && bound > 1e-5 ? 3 * bound : bound)
          << name;
    }
  }

  // Compares one step's gradients, from micro-batches of 2 sequences, 1 sequence of another length,
  // 2 sequences that documents share, and none.
  static void CompareGradients(CpuReference& reference, const v1::JobSpec& job, double bound) {
    reference.SetWeights(3);
    const auto rank = Make(job, reference);
    ASSERT_NE(rank, nullptr);
    std::vector<PlacedBatch> step = {{RandomSequences(2, kLength, kVocabulary, 1), 11},
                                     {RandomSequences(1, 5, kVocabulary, 2), 13},
                                     {RandomSequences(2, kLength, kVocabulary, 3), 14}};
    PackDocuments(step.back().batch, 1);
    reference.BeginStep(0);
    for (const PlacedBatch& each : step) reference.AddMicroBatch(each.batch, each.first_example);
    step.push_back({Batch(), 16});
    const auto result = rank->Train(step);
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectGradients(*rank, reference, bound);
    EXPECT_NEAR(result->sums.loss_sum, reference.loss_sum(), bound * reference.loss_sum());
    EXPECT_EQ(result->sums.loss_weight, reference.tokens());
    ASSERT_TRUE(result->gradient_norm.has_value());
    EXPECT_NEAR(*result->gradient_norm, reference.GradientNorm(),
                2 * bound * reference.GradientNorm());
  }

  // Compares one step's gradients, from two micro-batches of the same extents, with dropout.
  static void CompareMicroBatchesOfOneGraph(const std::string& shape);
};

class DeviceStepsShapesTest : public DeviceStepsTest,
                              public ::testing::WithParamInterface<std::string> {
 protected:
  // Compares the gradients and losses of these, the first of which is NONE.
  static void CompareRecomputation(const std::string& type,
                                   const std::vector<std::string>& recomputations);
  // Compares the losses of so many steps, and the weights after them, with the CPU's.
  static void CompareSteps(uint64_t steps);
};

TEST_P(DeviceStepsShapesTest, F32GradientsAreTheCpus) {
  CpuReference reference(GetParam(), kVocabulary, "");
  CompareGradients(reference, Job(GetParam(), "type: F32"), 1e-5);
}

// CPU and device both round. Over these shapes and six seeds, each is up to 3.5e-2 from f32 in its
// worst tensor, and up to 2.7e-2 from the other.
TEST_P(DeviceStepsShapesTest, Bf16GradientsAreNearTheCpus) {
  CpuReference reference(GetParam(), kVocabulary, "type: BF16");
  CompareGradients(reference, Job(GetParam(), "type: BF16"), 3e-2);
}

TEST_P(DeviceStepsShapesTest, F16GradientsAreNearThoseOfF32) {
  CpuReference reference(GetParam(), kVocabulary, "");
  CompareGradients(reference, Job(GetParam(), "type: F16"), 5e-3);
}

// Recomputed values equal the stored ones: in f32, and in bf16 if no product has GELU in it, as
// with widths that are no multiples of 8.
TEST_P(DeviceStepsShapesTest, RecomputationGivesTheSameBits) {
  CompareRecomputation("F32", {"NONE", "SELECTIVE"});
  CompareRecomputation("BF16", {"NONE", "FULL"});
}

TEST_P(DeviceStepsShapesTest, RecomputationGivesTheSameBitsExhaustive) {
  CompareRecomputation("F32", {"NONE", "FULL"});
  CompareRecomputation("BF16", {"NONE", "SELECTIVE"});
}

void DeviceStepsShapesTest::CompareRecomputation(const std::string& type,
                                                 const std::vector<std::string>& recomputations) {
  const std::string shape = absl::StrContains(GetParam(), "feed_forward")
                                ? GetParam()
                                : absl::StrCat(GetParam(), " feed_forward: 100");
  std::vector<std::vector<float>> expected;
  double loss = 0;
  for (const std::string& recompute : recomputations) {
    CpuReference reference(shape, kVocabulary, "");
    reference.SetWeights(4);
    const auto rank =
        Make(Job(shape, absl::StrCat("type: ", type, " recompute: ", recompute)), reference);
    ASSERT_NE(rank, nullptr);
    const auto result = rank->Train({{RandomSequences(3, kLength, kVocabulary, 1), 0}});
    ASSERT_TRUE(result.ok()) << result.status();
    const auto gradients = Gradients(*rank);
    if (recompute == "NONE") {
      expected = gradients;
      loss = result->sums.loss_sum;
    }
    EXPECT_EQ(result->sums.loss_sum, loss) << type << " " << recompute;
    EXPECT_EQ(gradients, expected) << type << " " << recompute;
  }
}

TEST_P(DeviceStepsShapesTest, FourStepsGiveTheCpusLosses) { CompareSteps(4); }

TEST_P(DeviceStepsShapesTest, TenStepsGiveTheCpusLossesExhaustive) { CompareSteps(10); }

void DeviceStepsShapesTest::CompareSteps(uint64_t steps) {
  CpuReference reference(GetParam(), kVocabulary, "");
  reference.SetWeights(6);
  v1::JobSpec job = Job(GetParam(), "type: F32");
  job.mutable_clipping()->set_by_global_norm(0.5);
  const auto rank = Make(job, reference);
  ASSERT_NE(rank, nullptr);
  for (uint64_t clock = 0; clock < steps; ++clock) {
    const Batch batch = RandomSequences(3, kLength, kVocabulary, 100 + clock % 2);
    reference.BeginStep(clock);
    reference.AddMicroBatch(batch, 0);
    const double tokens = static_cast<double>(reference.tokens());
    const double loss = reference.loss_sum() / tokens;
    reference.EndStep(0.01f, 0.1f, 0.5);
    const auto result = rank->Train({{batch, 0}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_NEAR(result->sums.loss_sum / tokens, loss, 1e-4) << clock;
  }
  // Tensors are compared together: Adam makes whole steps of rounding errors in gradients that are
  // 0, such as those of keys' biases.
  EXPECT_LE(RelativeDistance(Joined(Weights(*rank)), Joined(reference.weights())), 3e-3);
}

// Both kinds of dropout, and none, with padding and without.
INSTANTIATE_TEST_SUITE_P(
    Shapes, DeviceStepsShapesTest,
    ::testing::Values(kOdd, kModern,
                      absl::StrCat(kGpt2, " query_key_norm: WHOLE_WIDTH head_width: 12"),
                      absl::StrCat(kGpt2, " dropout: 0.2 attention_dropout: 0.2"),
                      absl::StrCat(kLlama, " attention_dropout: 0.3"),
                      absl::StrCat(kGpt2, " vocabulary: 37 pad_vocabulary_to: 16")));
INSTANTIATE_TEST_SUITE_P(ExhaustiveShapes, DeviceStepsShapesTest,
                         ::testing::Values(kGpt2, kLlama, absl::StrCat(kLlama, " dropout: 0.3")));

TEST_F(DeviceStepsTest, EvaluationIsTheCpusAndLeavesNothing) {
  CpuReference plain(kGpt2, kVocabulary, "");
  plain.SetWeights(8);
  const auto rank =
      Make(Job(absl::StrCat(kGpt2, " dropout: 0.5 attention_dropout: 0.5"), "type: F32"), plain);
  ASSERT_NE(rank, nullptr);
  const Batch batch = RandomSequences(3, kLength, kVocabulary, 3);
  const auto result = rank->Evaluate(batch);
  ASSERT_TRUE(result.ok()) << result.status();
  plain.BeginStep(0);
  plain.AddMicroBatch(batch, 0);
  EXPECT_NEAR(result->loss_sum, plain.loss_sum(), 1e-5 * plain.loss_sum());
  EXPECT_EQ(result->loss_weight, plain.tokens());
  EXPECT_EQ(result->correct, plain.correct());
  for (const std::vector<float>& gradient : Gradients(*rank)) {
    for (const float value : gradient) ASSERT_EQ(value, 0);
  }
}

TEST_F(DeviceStepsTest, WeightsAreEverybodysInitialValuesAfterWarmingUp) {
  const v1::JobSpec job = Job(kLlama, "type: BF16");
  const auto rank = DeviceRank::Create(job, kVocabulary);
  ASSERT_TRUE(rank.ok()) << rank.status();
  const std::vector<std::vector<float>> weights = Weights(**rank);
  for (size_t t = 0; t < weights.size(); ++t) {
    std::vector<float> expected(weights[t].size());
    InitialValues((*rank)->tensors()[t], job.seed(), 0, absl::MakeSpan(expected));
    EXPECT_EQ(weights[t], expected) << (*rank)->tensors()[t].name;
  }
  // The loss of a guess.
  const auto result = (*rank)->Evaluate(RandomSequences(3, kLength, kVocabulary, 3));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->loss_sum / static_cast<double>(result->loss_weight), std::log(kVocabulary),
              0.05);
}

// Half precision overflows at 65,504. With a large head, gradients of what goes into it do: nothing
// changes then, until the scale is small enough.
TEST_F(DeviceStepsTest, AStepThatOverflowsIsSkipped) {
  const std::string shape = absl::StrCat(kGpt2, " separate_head: true");
  CpuReference reference(shape, kVocabulary, "");
  reference.SetWeights(10);
  for (float& weight : reference.weights().back()) weight *= 200;
  const auto rank = Make(Job(shape, "type: F16"), reference);
  ASSERT_NE(rank, nullptr);
  const Batch batch = RandomSequences(3, kLength, kVocabulary, 4);
  reference.BeginStep(0);
  reference.AddMicroBatch(batch, 0);
  for (int skipped = 0; skipped < 12; ++skipped) {
    const float loss_scale = rank->strategy().loss_scale();
    const auto result = rank->Train({{batch, 0}});
    ASSERT_TRUE(result.ok()) << result.status();
    if (result->gradient_norm.has_value()) {
      EXPECT_GE(skipped, 1);
      // The norm is the gradient's own, not the scaled one's.
      EXPECT_NEAR(*result->gradient_norm, reference.GradientNorm(), 0.05 * *result->gradient_norm);
      EXPECT_NE(Weights(*rank), reference.weights());
      return;
    }
    EXPECT_EQ(rank->strategy().loss_scale(), loss_scale / 2);
    EXPECT_EQ(Weights(*rank), reference.weights());
  }
  FAIL() << "no scale was small enough";
}

TEST_F(DeviceStepsTest, DivergenceIsAnErrorThatNamesTheStep) {
  CpuReference reference(kGpt2, kVocabulary, "");
  reference.SetWeights(11);
  reference.weights()[0][5] = std::numeric_limits<float>::infinity();
  const auto rank = Make(Job(kGpt2, "type: F32"), reference);
  ASSERT_NE(rank, nullptr);
  Batch batch = RandomSequences(1, kLength, kVocabulary, 4);
  batch.tokens[0] = 0;
  const auto result = rank->Train({{batch, 0}});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("step 1"));
  EXPECT_EQ(Weights(*rank), reference.weights());
}

TEST_F(DeviceStepsTest, AStepWithoutLabelsChangesNothing) {
  for (const std::string type : {"F32", "F16"}) {
    CpuReference reference(kGpt2, kVocabulary, "");
    reference.SetWeights(11);
    const auto rank = Make(Job(kGpt2, "type: " + type), reference);
    ASSERT_NE(rank, nullptr);
    Batch batch = RandomSequences(2, kLength, kVocabulary, 1);
    batch.labels.assign(batch.labels.size(), -1);
    const auto result = rank->Train({{batch, 0}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->sums.loss_weight, 0);
    EXPECT_FALSE(result->gradient_norm.has_value());
    EXPECT_EQ(Weights(*rank), reference.weights());
  }
}

// A graph keeps nothing of the batch and place that it was captured from.
TEST_F(DeviceStepsTest, MicroBatchesOfOneGraphAreTheCpus) { CompareMicroBatchesOfOneGraph(kLlama); }

TEST_F(DeviceStepsTest, MicroBatchesOfOneGraphAreTheCpusExhaustive) {
  CompareMicroBatchesOfOneGraph(kGpt2);
}

void DeviceStepsTest::CompareMicroBatchesOfOneGraph(const std::string& shape) {
  const std::string dropping = absl::StrCat(shape, " dropout: 0.2 attention_dropout: 0.2");
  CpuReference reference(dropping, kVocabulary, "");
  reference.SetWeights(12);
  const auto rank = Make(Job(dropping, "type: F32"), reference);
  ASSERT_NE(rank, nullptr);
  reference.BeginStep(0);
  std::vector<PlacedBatch> step;
  for (const uint64_t example : {11, 14}) {
    step.push_back({RandomSequences(3, kLength, kVocabulary, example), example});
    reference.AddMicroBatch(step.back().batch, example);
  }
  const auto result = rank->Train(step);
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectGradients(*rank, reference, 1e-5);
}

TEST_F(DeviceStepsTest, RefusesBatchesThatDoNotFit) {
  const auto rank = DeviceRank::Create(Job(kGpt2, "type: F32"), kVocabulary);
  ASSERT_TRUE(rank.ok()) << rank.status();
  const auto result = (*rank)->Train({{RandomSequences(4, kLength, kVocabulary, 1), 0}});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("at most 3"));
}

}  // namespace
}  // namespace muster
