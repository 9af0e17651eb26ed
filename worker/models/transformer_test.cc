#include "worker/models/transformer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/kernels/matmul.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/packed_batches_for_testing.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/models/model_check_for_testing.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kContext = 5;
constexpr int64_t kVocabulary = 7;

DatasetInfo Sequences() {
  return {.examples = 100,
          .context = kContext,
          .vocabulary = kVocabulary,
          .classes = kVocabulary,
          .labels_per_example = kContext};
}

// `sequences` of random tokens, the first of which lacks a label.
Batch RandomBatch(int64_t sequences, uint64_t seed = 1) {
  const Philox random(seed, "test", "tokens");
  Batch batch;
  batch.Clear();
  batch.examples = sequences;
  for (int64_t i = 0; i < sequences * kContext; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random.Below(kVocabulary, i)));
    batch.labels.push_back(static_cast<int32_t>(random.Below(kVocabulary, i, 1)));
  }
  batch.labels[2] = -1;
  return batch;
}

std::string Spec(const std::string& fields) {
  const char* const layers = absl::StartsWith(fields, "layers") ? "" : "layers: 2 ";
  return absl::StrCat("transformer { ", layers, "width: 8 heads: 2 context: ", kContext, " ",
                      fields, " }");
}

const char kGpt2[] = "";
const char kLlama[] =
    "kv_heads: 1 feed_forward: 12 norm: RMS_NORM positions: ROTARY activation: SWIGLU "
    "separate_head: true no_biases: true";

// Weights at which no logit is certain, the same for every model of the shape.
void SetParameters(LocalTrainer& trainer) {
  for (size_t t = 0; t < trainer.parameters().size(); ++t) {
    const std::vector<float> values = RandomValues(trainer.parameters()[t].size(), 10 + t);
    for (size_t i = 0; i < values.size(); ++i) trainer.parameters()[t][i] = 0.4f * values[i];
  }
}

struct Result {
  double loss = 0;
  int64_t correct = 0;
  std::vector<std::vector<float>> gradients;
};

Result LossAndGradients(const Model& model, const Batch& batch, float loss_scale = 1) {
  LocalTrainer trainer(model, 1);
  SetParameters(trainer);
  EXPECT_TRUE(trainer.Load(batch).ok());
  EXPECT_TRUE(trainer.Run({.loss_scale = loss_scale}).ok());
  return {trainer.micro_batch().loss_sum, trainer.micro_batch().correct, trainer.gradients()};
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// A dense block, and one of experts with all that there may be.
const char kExperts[] =
    "layers: 3 feed_forward: 12 norm: RMS_NORM activation: SWIGLU no_biases: true moe { experts: 6 "
    "top_k: 2 expert_width: 10 shared_width: 6 shared_gate: true dense_layers: 1 normalize: true "
    "auxiliary_loss: 0.3 z_loss: 0.05 }";
// As in DeepSeek-V3, with the scores of groups.
const char kExpertGroups[] =
    "moe { experts: 6 top_k: 3 expert_width: 9 shared_width: 5 scores: SIGMOID normalize: true "
    "scaling: 2.5 groups: 3 top_groups: 2 auxiliary_loss: 0.3 auxiliary_scope: MICRO_BATCH "
    "selection_bias: true }";
const char kOneExpert[] = "moe { experts: 4 top_k: 1 expert_width: 7 }";
// Each token goes to all, however scores are rounded.
const char kAllExperts[] =
    "moe { experts: 3 top_k: 3 expert_width: 9 shared_width: 5 shared_gate: true scores: SIGMOID "
    "normalize: true scaling: 2.5 auxiliary_loss: 0.3 z_loss: 0.05 }";

// Some choices are dropped.
const char kFullExperts[] =
    "moe { experts: 5 top_k: 2 expert_width: 8 shared_width: 4 normalize: true auxiliary_loss: 0.2 "
    "capacity_factor: 0.8 }";

class TransformerSettingsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TransformerSettingsTest, GradientsMatchDifferences) {
  const auto model = MakeModel(Spec(GetParam()), Sequences());
  ASSERT_NE(model, nullptr);
  CheckModel(*model, RandomBatch(2));
}

TEST_P(TransformerSettingsTest, GradientsOfPackedDocumentsMatchDifferences) {
  const auto model = MakeModel(Spec(GetParam()), Sequences());
  Batch batch = RandomBatch(3);
  PackDocuments(batch, 1);
  CheckModel(*model, batch);
}

TEST_P(TransformerSettingsTest, RecomputationGivesTheSameBits) {
  for (const char* type : {"F32", "BF16", "F16"}) {
    const auto kept = MakeModel(Spec(GetParam()), absl::StrCat("type: ", type), Sequences());
    const Result expected = LossAndGradients(*kept, RandomBatch(3));
    for (const char* recompute : {"SELECTIVE", "FULL"}) {
      const auto model = MakeModel(
          Spec(GetParam()), absl::StrCat("type: ", type, " recompute: ", recompute), Sequences());
      const Result result = LossAndGradients(*model, RandomBatch(3));
      EXPECT_EQ(result.loss, expected.loss) << type << " " << recompute;
      EXPECT_EQ(result.gradients, expected.gradients) << type << " " << recompute;
    }
  }
}

class PackedDocumentsTest : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr int64_t kLong = 150;

  static std::unique_ptr<const Model> ModelOf(const std::string& compute) {
    DatasetInfo data = Sequences();
    data.context = data.labels_per_example = kLong;
    return MakeModel(absl::StrCat("transformer { layers: 2 width: 24 heads: 2 context: ", kLong,
                                  " ", GetParam(), " }"),
                     compute, data);
  }

  static Batch Packed() {
    const Philox random(4, "test", "tokens");
    Batch batch;
    batch.Clear();
    batch.examples = 3;
    for (int64_t i = 0; i < batch.examples * kLong; ++i) {
      batch.tokens.push_back(static_cast<int32_t>(random.Below(kVocabulary, i)));
      batch.labels.push_back(static_cast<int32_t>(random.Below(kVocabulary, i, 1)));
    }
    PackDocuments(batch, 2);
    return batch;
  }
};

// Loss and gradients of documents that share sequences are the sums over the documents alone.
TEST_P(PackedDocumentsTest, AreWhatTheyAreAlone) {
  const Batch packed = Packed();
  const std::vector<Batch> documents = DocumentsAlone(packed);
  ASSERT_GT(documents.size(), 6);
  const struct {
    const char* type;
    // Rounding to 16 bits, as in other sums, makes most of the distance.
    double bound;
  } cases[] = {{"F32", 1e-5}, {"BF16", 3e-2}, {"F16", 4e-3}};
  for (const auto& [type, bound] : cases) {
    for (const char* recompute : {"NONE", "SELECTIVE", "FULL"}) {
      SCOPED_TRACE(absl::StrCat(type, " ", recompute));
      const auto model = ModelOf(absl::StrCat("type: ", type, " recompute: ", recompute));
      const Result together = LossAndGradients(*model, packed);
      Result alone;
      for (const Batch& document : documents) {
        const Result one = LossAndGradients(*model, document);
        alone.loss += one.loss;
        alone.correct += one.correct;
        alone.gradients.resize(one.gradients.size());
        for (size_t t = 0; t < one.gradients.size(); ++t) {
          alone.gradients[t].resize(one.gradients[t].size());
          for (size_t i = 0; i < one.gradients[t].size(); ++i) {
            alone.gradients[t][i] += one.gradients[t][i];
          }
        }
      }
      EXPECT_NEAR(together.loss, alone.loss, bound * alone.loss);
      if (bound <= 1e-5) {
        EXPECT_EQ(together.correct, alone.correct);
      }
      for (size_t t = 0; t < alone.gradients.size(); ++t) {
        EXPECT_LE(Distance(together.gradients[t], alone.gradients[t]), bound)
            << model->description().tensors[t].name;
      }
    }
  }
}

// A document's tokens change neither the loss nor the gradients of others.
TEST_P(PackedDocumentsTest, DoNotSeeOneAnother) {
  const auto model = ModelOf("");
  Batch packed = Packed();
  // The first document is left without labels, so that only what others see of it counts.
  int64_t end = 1;
  while (packed.positions[end] != 0) ++end;
  for (int64_t t = 0; t < end; ++t) packed.labels[t] = -1;
  const Result before = LossAndGradients(*model, packed);
  for (int64_t t = 0; t < end; ++t) packed.tokens[t] = (packed.tokens[t] + 1) % kVocabulary;
  const Result after = LossAndGradients(*model, packed);
  EXPECT_EQ(after.loss, before.loss);
  for (size_t t = 0; t < before.gradients.size(); ++t) {
    EXPECT_LE(Distance(after.gradients[t], before.gradients[t]), 1e-6);
  }
  // Without the border the others see it.
  packed.positions.clear();
  EXPECT_NE(LossAndGradients(*model, packed).loss, before.loss);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PackedDocumentsTest, ::testing::Values(kGpt2, kLlama));

TEST(TransformerTest, RefusesPositionsThatAreNoDocuments) {
  const auto model = MakeModel(Spec(""), Sequences());
  const auto message = [&](const std::vector<int32_t>& positions) {
    Batch batch = RandomBatch(1);
    batch.positions = positions;
    return std::string(LocalTrainer(*model, 1).Load(batch).message());
  };
  EXPECT_EQ(message({0, 1, 0, 0, 1}), "");
  EXPECT_THAT(message({0, 1}), HasSubstr("has 2 positions"));
  EXPECT_THAT(message({1, 2, 0, 0, 1}), HasSubstr("Token 0 of a batch is at position 1"));
  EXPECT_THAT(message({0, 1, 3, 0, 1}), HasSubstr("Token 2 of a batch is at position 3"));
}

TEST_P(TransformerSettingsTest, NoExamplesAreNothing) {
  for (const char* type : {"F32", "BF16", "F16"}) {
    for (const char* recompute : {"NONE", "SELECTIVE", "FULL"}) {
      SCOPED_TRACE(absl::StrCat(type, " ", recompute));
      CheckNoExamples(
          *MakeModel(Spec(GetParam()), absl::StrCat("type: ", type, " recompute: ", recompute),
                     Sequences()),
          RandomBatch(2));
    }
  }
}

class TransformerTypesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TransformerTypesTest, Bf16IsNearF32) {
  const auto exact = MakeModel(Spec(GetParam()), Sequences());
  const auto rounded = MakeModel(Spec(GetParam()), "type: BF16", Sequences());
  const Result expected = LossAndGradients(*exact, RandomBatch(8));
  const Result result = LossAndGradients(*rounded, RandomBatch(8));
  EXPECT_NE(result.loss, expected.loss);
  EXPECT_NEAR(result.loss, expected.loss, 5e-3 * expected.loss);
  for (size_t t = 0; t < expected.gradients.size(); ++t) {
    const std::string& name = exact->description().tensors[t].name;
    // A gate's gradient is a sum of products that nearly cancel.
    const double bound = absl::EndsWith(name, "shared_gate.weight") ? 0.1 : 3e-2;
    EXPECT_LE(Distance(result.gradients[t], expected.gradients[t]), bound) << name;
  }
}

// Gradients come out multiplied by the scale, and nearer to f32's than bf16's.
TEST_P(TransformerTypesTest, F16IsNearF32) {
  const auto exact = MakeModel(Spec(GetParam()), Sequences());
  const auto rounded = MakeModel(Spec(GetParam()), "type: F16", Sequences());
  const Batch batch = RandomBatch(8);
  const Result expected = LossAndGradients(*exact, batch);
  for (const float scale : {1.0f, 256.0f}) {
    const Result result = LossAndGradients(*rounded, batch, scale);
    EXPECT_NE(result.loss, expected.loss);
    EXPECT_NEAR(result.loss, expected.loss, 6e-4 * expected.loss);
    for (size_t t = 0; t < expected.gradients.size(); ++t) {
      std::vector<float> unscaled = result.gradients[t];
      for (float& value : unscaled) value /= scale;
      EXPECT_LE(Distance(unscaled, expected.gradients[t]), 4e-3)
          << exact->description().tensors[t].name << " at " << scale;
    }
  }
}

// What a power of two changes where no f16 is too small or too large for it: nothing.
TEST_P(TransformerSettingsTest, ScalesOfF32ChangeNoBit) {
  const auto model = MakeModel(Spec(GetParam()), Sequences());
  const Result expected = LossAndGradients(*model, RandomBatch(3));
  const Result scaled = LossAndGradients(*model, RandomBatch(3), 1024);
  EXPECT_EQ(scaled.loss, expected.loss);
  for (size_t t = 0; t < expected.gradients.size(); ++t) {
    // Loads of experts are no gradients of the loss.
    const float scale = model->description().tensors[t].sign_rate > 0 ? 1 : 1024;
    for (size_t i = 0; i < expected.gradients[t].size(); ++i) {
      ASSERT_EQ(scaled.gradients[t][i], scale * expected.gradients[t][i]);
    }
  }
}

// More rows of the vocabulary than it has tokens change neither loss nor gradients, and get none.
TEST_P(TransformerSettingsTest, PaddingTakesNoPart) {
  const std::string vocabulary =
      absl::StrContains(GetParam(), "vocabulary") ? "" : " vocabulary: 7";
  for (const char* type : {"F32", "BF16", "F16"}) {
    const std::string compute = absl::StrCat("type: ", type);
    const auto plain = MakeModel(Spec(absl::StrCat(GetParam(), vocabulary)), compute, Sequences());
    const auto padded = MakeModel(
        Spec(absl::StrCat(GetParam(), vocabulary, " pad_vocabulary_to: 16")), compute, Sequences());
    const Result expected = LossAndGradients(*plain, RandomBatch(3));
    const Result result = LossAndGradients(*padded, RandomBatch(3));
    EXPECT_NEAR(result.loss, expected.loss, 1e-5 * expected.loss) << type;
    EXPECT_EQ(result.correct, expected.correct);
    for (size_t t = 0; t < expected.gradients.size(); ++t) {
      const std::string& name = plain->description().tensors[t].name;
      std::vector<float> gradient = result.gradients[t];
      const size_t elements = expected.gradients[t].size();
      if (name == "embedding.weight" || name == "head.weight") {
        if (!plain->description().tensors[t].tied_to.empty()) continue;
        ASSERT_EQ(gradient.size(), 16u * 8u) << name;
        for (size_t i = elements; i < gradient.size(); ++i) ASSERT_EQ(gradient[i], 0) << name;
      }
      gradient.resize(elements);
      EXPECT_LE(Distance(gradient, expected.gradients[t]),
                type[0] == 'F' && type[1] == '3' ? 1e-5 : 1e-2)
          << name << " " << type;
    }
  }
}

const std::vector<const char*> kSettings = {
    kGpt2, kLlama, "norm: RMS_NORM", "positions: ROTARY", "activation: SWIGLU feed_forward: 12",
    "separate_head: true", "no_biases: true", "kv_heads: 1", "dropout: 0.3",
    "attention_dropout: 0.4",
    "positions: ROTARY dropout: 0.2 attention_dropout: 0.2 separate_head: true norm_epsilon: 1e-3 "
    "rotary_base: 100 vocabulary: 9",
    // As in Qwen 2, with heads wider together than the model and angles as in Llama 3.1.
    "kv_heads: 1 norm: RMS_NORM positions: ROTARY activation: SWIGLU feed_forward: 12 no_biases: "
    "true attention_biases: true head_width: 6 rotary_scaling { type: LLAMA3 factor: 8 "
    "original_context: 16 }",
    "head_width: 2 positions: ROTARY rotary_scaling { type: YARN factor: 4 original_context: 64 }",
    // As in Qwen 3, and in OLMoE.
    "kv_heads: 1 norm: RMS_NORM positions: ROTARY no_biases: true head_width: 6 query_key_norm: "
    "PER_HEAD",
    "kv_heads: 1 norm: RMS_NORM positions: ROTARY no_biases: true query_key_norm: WHOLE_WIDTH",
    "positions: ROTARY sliding_window: 2", "label_smoothing: 0.2 z_loss: 0.05"};

INSTANTIATE_TEST_SUITE_P(Settings, TransformerSettingsTest, ::testing::ValuesIn(kSettings));
INSTANTIATE_TEST_SUITE_P(Experts, TransformerSettingsTest,
                         ::testing::Values(kExperts, kExpertGroups, kOneExpert, kFullExperts));
INSTANTIATE_TEST_SUITE_P(Settings, TransformerTypesTest, ::testing::ValuesIn(kSettings));
INSTANTIATE_TEST_SUITE_P(Experts, TransformerTypesTest, ::testing::Values(kAllExperts));

TEST(TransformerTest, Llama) {
  const auto model = MakeModel(Spec(kLlama), Sequences());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->description().units, 4);
  EXPECT_EQ(model->description().default_metric, "bits_per_byte");
}

// An evaluation's loss is cross entropy, training's has all terms.
TEST(TransformerTest, EvaluationsReportPlainCrossEntropy) {
  const auto plain = MakeModel(Spec(kGpt2), Sequences());
  const auto with_terms = MakeModel(Spec("label_smoothing: 0.2 z_loss: 0.05"), Sequences());
  const Batch batch = RandomBatch(4);
  const auto evaluated = [&](const Model& model) {
    LocalTrainer trainer(model, 3);
    EXPECT_TRUE(trainer.Evaluate(batch).ok());
    return trainer.micro_batch().loss_sum;
  };
  EXPECT_EQ(evaluated(*with_terms), evaluated(*plain));
  EXPECT_GT(LossAndGradients(*with_terms, batch).loss, LossAndGradients(*plain, batch).loss + 0.01);
}

TEST(TransformerTest, InitialLossIsThatOfAGuess) {
  const auto model = MakeModel(Spec(kGpt2), Sequences());
  LocalTrainer trainer(*model, 3);
  const Batch batch = RandomBatch(4);
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_EQ(trainer.micro_batch().loss_weight, 4 * kContext - 1);
  EXPECT_NEAR(trainer.micro_batch().loss_sum / trainer.micro_batch().loss_weight,
              std::log(kVocabulary), 0.02);
}

TEST(TransformerTest, EvaluationGivesTheLossOfTraining) {
  const auto model = MakeModel(Spec(kLlama), "recompute: SELECTIVE", Sequences());
  const Result trained = LossAndGradients(*model, RandomBatch(4));
  LocalTrainer trainer(*model, 1);
  SetParameters(trainer);
  ASSERT_TRUE(trainer.Evaluate(RandomBatch(4)).ok());
  EXPECT_EQ(trainer.micro_batch().loss_sum, trained.loss);
  EXPECT_EQ(trainer.micro_batch().correct, trained.correct);
}

// An expert gets no more than its limit, and dropped choices are told with the loads.
TEST(TransformerTest, LoadsAndDroppedChoicesAreAllChoices) {
  const auto model = MakeModel(Spec(kFullExperts), Sequences());
  ASSERT_TRUE(model->description().drops_choices);
  const size_t experts = model->description().experts;
  for (const int64_t sequences : {1, 2, 5}) {
    LocalTrainer trainer(*model, 1);
    SetParameters(trainer);
    ASSERT_TRUE(trainer.Load(RandomBatch(sequences)).ok());
    ASSERT_TRUE(trainer.Run().ok());
    const std::vector<uint64_t>& loads = trainer.micro_batch().expert_loads;
    const auto choices = static_cast<uint64_t>(2 * sequences * kContext);
    const auto most = static_cast<uint64_t>(
        std::ceil(0.8f * static_cast<float>(choices) / static_cast<float>(experts)));
    ASSERT_EQ(loads.size() % (experts + 1), 0u);
    for (size_t first = 0; first < loads.size(); first += experts + 1) {
      const auto begin = loads.begin() + static_cast<int64_t>(first);
      EXPECT_EQ(std::accumulate(begin, begin + experts + 1, uint64_t{0}), choices);
      EXPECT_LE(*std::max_element(begin, begin + experts), most);
      EXPECT_GT(begin[experts], 0u);
    }
  }
}

// A token's logits do not know the tokens after it.
TEST(TransformerTest, IsCausal) {
  const auto model = MakeModel(Spec(kLlama), Sequences());
  Batch batch = RandomBatch(1);
  for (int64_t t = 2; t < kContext; ++t) batch.labels[t] = -1;
  const Result before = LossAndGradients(*model, batch);
  for (int64_t t = 2; t < kContext; ++t) batch.tokens[t] = (batch.tokens[t] + 1) % kVocabulary;
  EXPECT_EQ(LossAndGradients(*model, batch).loss, before.loss);
  batch.tokens[1] = (batch.tokens[1] + 1) % kVocabulary;
  EXPECT_NE(LossAndGradients(*model, batch).loss, before.loss);
}

// Sums over sequences, whatever the micro-batches they come in; with dropout, whose masks go by the
// place in the step.
TEST(TransformerTest, MicroBatchesAddUp) {
  const auto model = MakeModel(Spec("dropout: 0.3 attention_dropout: 0.3"), Sequences());
  const Batch whole = RandomBatch(4);
  const auto run = [&](int64_t first, int64_t count) {
    Batch part;
    part.Clear();
    part.examples = count;
    part.tokens.assign(whole.tokens.begin() + first * kContext,
                       whole.tokens.begin() + (first + count) * kContext);
    part.labels.assign(whole.labels.begin() + first * kContext,
                       whole.labels.begin() + (first + count) * kContext);
    LocalTrainer trainer(*model, 1);
    SetParameters(trainer);
    EXPECT_TRUE(trainer.Load(part).ok());
    EXPECT_TRUE(
        trainer.Run({.seed = 5, .clock = 9, .first_example = static_cast<uint64_t>(first)}).ok());
    return Result{trainer.micro_batch().loss_sum, 0, trainer.gradients()};
  };
  const Result all = run(0, 4);
  const Result a = run(0, 1);
  const Result b = run(1, 3);
  EXPECT_NEAR(a.loss + b.loss, all.loss, 1e-4);
  for (size_t t = 0; t < all.gradients.size(); ++t) {
    std::vector<float> sum = a.gradients[t];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += b.gradients[t][i];
    EXPECT_LE(Distance(sum, all.gradients[t]), 1e-5) << model->description().tensors[t].name;
  }
  // Other places, other masks.
  EXPECT_NE(run(1, 1).loss, [&] {
    LocalTrainer trainer(*model, 1);
    SetParameters(trainer);
    Batch second = RandomBatch(4);
    second.examples = 1;
    second.tokens.assign(whole.tokens.begin() + kContext, whole.tokens.begin() + 2 * kContext);
    second.labels.assign(whole.labels.begin() + kContext, whole.labels.begin() + 2 * kContext);
    EXPECT_TRUE(trainer.Load(second).ok());
    EXPECT_TRUE(trainer.Run({.seed = 5, .clock = 9, .first_example = 2}).ok());
    return trainer.micro_batch().loss_sum;
  }());
}

TEST(TransformerTest, AnyNumberOfThreads) {
  const auto model = MakeModel(Spec(kLlama), Sequences());
  const Result one = LossAndGradients(*model, RandomBatch(6));
  SetComputeThreads(3);
  const Result three = LossAndGradients(*model, RandomBatch(6));
  SetComputeThreads(1);
  EXPECT_NEAR(three.loss, one.loss, 1e-5 * one.loss);
  for (size_t t = 0; t < one.gradients.size(); ++t) {
    EXPECT_LE(Distance(three.gradients[t], one.gradients[t]), 1e-5);
  }
}

TEST(TransformerTest, Learns) {
  for (const char* type : {"F32", "BF16", "F16"}) {
    const auto model = MakeModel(Spec(kLlama), absl::StrCat("type: ", type), Sequences());
    LocalTrainer trainer(*model, 1);
    // Each token follows the one before.
    Batch batch = RandomBatch(8);
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      batch.tokens[i] = static_cast<int32_t>((i % kContext + i / kContext) % kVocabulary);
      batch.labels[i] = (batch.tokens[i] + 1) % kVocabulary;
    }
    ASSERT_TRUE(trainer.Evaluate(batch).ok());
    const double before = trainer.micro_batch().loss_sum;
    for (int step = 0; step < 300; ++step) ASSERT_TRUE(trainer.Step(batch, 0.5f).ok());
    EXPECT_NEAR(trainer.mean_loss() * 8 * kContext, trainer.micro_batch().loss_sum, 1e-9);
    ASSERT_TRUE(trainer.Evaluate(batch).ok());
    EXPECT_LT(trainer.micro_batch().loss_sum, 0.2 * before) << type;
    EXPECT_EQ(trainer.micro_batch().correct, 8 * kContext) << type;
  }
}

TEST(TransformerTest, RefusesBatchesThatDoNotFit) {
  const auto model = MakeModel(Spec(kGpt2), Sequences());
  const auto message = [&](const Batch& batch) {
    const auto micro_batch = model->NewMicroBatch();
    const absl::Status status = model->Load(batch, *micro_batch);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  Batch batch = RandomBatch(2);
  batch.tokens.pop_back();
  EXPECT_THAT(message(batch), AllOf(HasSubstr("2 sequences"), HasSubstr("9 tokens")));
  batch = RandomBatch(2);
  batch.labels.pop_back();
  EXPECT_THAT(message(batch), HasSubstr("9 labels"));
  batch = RandomBatch(2);
  batch.tokens[3] = -1;
  EXPECT_THAT(message(batch), AllOf(HasSubstr("Token 3"), HasSubstr("-1")));
  batch = RandomBatch(2);
  batch.labels[4] = 7;
  EXPECT_THAT(message(batch), AllOf(HasSubstr("Label 4"), HasSubstr("7")));
  batch = RandomBatch(1);
  batch.tokens.insert(batch.tokens.end(), 3, 0);
  batch.labels.insert(batch.labels.end(), 3, 0);
  EXPECT_THAT(message(batch), HasSubstr("context of 5"));
}

TEST(TransformerTest, RefusesDataWithoutSequences) {
  EXPECT_THAT(CreateError(Spec(kGpt2), {.dense_features = 3, .classes = 2}),
              AllOf(HasSubstr("3 dense features"), HasSubstr("data.sequences")));
  EXPECT_THAT(CreateError(Spec(kGpt2), {.context = 5, .vocabulary = 256, .classes = 256}),
              HasSubstr("data.sequences"));
}

}  // namespace
}  // namespace muster
