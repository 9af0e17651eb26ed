#include "worker/models/transformer_decoder.h"

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/models/model_check_for_testing.h"
#include "worker/models/resolve_transformer.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kDecoderContext = 300;

TransformerShape Llama() {
  return {.layers = 2,
          .width = 16,
          .heads = 4,
          .kv_heads = 2,
          .feed_forward = 24,
          .vocabulary = 11,
          .context = kDecoderContext,
          .norm = TransformerShape::Norm::kRmsNorm,
          .positions = TransformerShape::Positions::kRotary,
          .activation = TransformerShape::Activation::kSwiGlu,
          .tied_head = false,
          .biases = false};
}

TransformerShape Gpt2() {
  return {.layers = 2,
          .width = 16,
          .heads = 2,
          .kv_heads = 2,
          .feed_forward = 64,
          .vocabulary = 11,
          .context = kDecoderContext};
}

class TransformerDecoderTest : public ::testing::TestWithParam<TransformerShape> {
 protected:
  TransformerDecoderTest() : shape_(GetParam()) {
    for (const TensorSpec& spec : MakeTransformerTensors(shape_).specs) {
      std::vector<float> values = RandomValues(spec.elements(), values_.size());
      for (float& value : values) value *= 0.5f;
      values_.push_back(std::move(values));
    }
    for (const std::vector<float>& values : values_) spans_.push_back(values);
  }

  static std::vector<int32_t> Tokens(int64_t count) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * i % 11));
    return tokens;
  }

  const TransformerShape shape_;
  std::vector<std::vector<float>> values_;
  std::vector<absl::Span<const float>> spans_;
};

TEST_P(TransformerDecoderTest, OneByOneIsAsAllAtOnce) {
  auto decoder = TransformerDecoder::Create(shape_, spans_).value();
  // More than one pass takes in at once.
  const std::vector<int32_t> tokens = Tokens(kDecoderContext);
  const absl::Span<const float> logits = decoder->Prefill(tokens).value();
  const std::vector<float> at_once(logits.begin(), logits.end());
  EXPECT_EQ(decoder->position(), kDecoderContext);

  decoder->Reset();
  EXPECT_EQ(decoder->position(), 0);
  std::vector<float> last;
  for (int32_t token : tokens) {
    const absl::Span<const float> next = decoder->Prefill({token}).value();
    last.assign(next.begin(), next.end());
  }
  ASSERT_EQ(last.size(), 11);
  for (size_t i = 0; i < last.size(); ++i) EXPECT_NEAR(last[i], at_once[i], 1e-4);
}

TEST_P(TransformerDecoderTest, KnowsWhatCameBefore) {
  auto decoder = TransformerDecoder::Create(shape_, spans_).value();
  const auto logit = [&](std::vector<int32_t> tokens) {
    decoder->Reset();
    return (*decoder->Prefill(tokens))[0];
  };
  EXPECT_EQ(logit({1, 2, 3}), logit({1, 2, 3}));
  EXPECT_NE(logit({1, 2, 3}), logit({2, 1, 3}));
}

// Rows that are of no token have no logits, whatever is in them.
TEST_P(TransformerDecoderTest, PaddingIsOfNoToken) {
  TransformerShape shape = shape_;
  shape.padded_vocabulary = 16;
  const std::vector<TensorSpec> specs = MakeTransformerTensors(shape).specs;
  std::vector<std::vector<float>> values = values_;
  std::vector<absl::Span<const float>> spans;
  for (size_t i = 0; i < specs.size(); ++i) {
    values[i].resize(specs[i].elements(), 1e6f);
    spans.push_back(values[i]);
  }
  auto padded = TransformerDecoder::Create(shape, spans).value();
  auto plain = TransformerDecoder::Create(shape_, spans_).value();
  EXPECT_EQ(padded->Prefill({11}).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::Span<const float> logits = padded->Prefill(Tokens(20)).value();
  const absl::Span<const float> expected = plain->Prefill(Tokens(20)).value();
  ASSERT_EQ(logits.size(), 11);
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-6);
}

TEST_P(TransformerDecoderTest, Refusals) {
  auto decoder = TransformerDecoder::Create(shape_, spans_).value();
  EXPECT_EQ(decoder->Prefill({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(decoder->Prefill({11}).status().message(), AllOf(HasSubstr("11")));
  EXPECT_EQ(decoder->Prefill({-1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder->position(), 0);
  ASSERT_TRUE(decoder->Prefill(Tokens(kDecoderContext)).ok());
  EXPECT_EQ(decoder->Prefill({0}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(decoder->position(), kDecoderContext);

  spans_.pop_back();
  EXPECT_EQ(TransformerDecoder::Create(shape_, spans_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(TransformerDecoderTest, NamesTheTensorThatDoesNotFit) {
  spans_[0] = spans_[0].subspan(1);
  EXPECT_THAT(TransformerDecoder::Create(shape_, spans_).status().message(),
              HasSubstr("embedding.weight"));
}

INSTANTIATE_TEST_SUITE_P(Shapes, TransformerDecoderTest, ::testing::Values(Gpt2(), Llama()));

// Fields of TransformerSpec: activation, norm, positions, key-value heads, head.
using Settings = std::tuple<const char*, const char*, const char*, const char*, const char*>;
class DecoderOfModelTest : public ::testing::TestWithParam<Settings> {};

// The model tells its logits by the losses of all labels.
TEST_P(DecoderOfModelTest, LogitsAreThoseOfTheForwardPassOfTraining) {
  const auto [activation, norm, positions, kv_heads, head] = GetParam();
  const std::string spec =
      absl::StrCat("transformer { layers: 2 width: 16 heads: 4 context: 7 ", activation, " ", norm,
                   " ", positions, " ", kv_heads, " ", head, " }");
  const auto model = MakeModel(
      spec,
      {.examples = 10, .context = 7, .vocabulary = 11, .classes = 11, .labels_per_example = 7});
  ASSERT_NE(model, nullptr);
  LocalTrainer trainer(*model, 1);
  std::vector<absl::Span<const float>> spans;
  for (std::vector<float>& tensor : trainer.parameters()) {
    absl::c_copy(RandomValues(tensor.size(), spans.size()), tensor.begin());
    spans.push_back(tensor);
  }
  v1::ModelSpec parsed;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(spec, &parsed));
  const TransformerShape shape = ResolveTransformer(parsed.transformer(), 11).value();
  const auto decoder = TransformerDecoder::Create(shape, spans).value();

  Batch batch;
  batch.Clear();
  batch.examples = 1;
  batch.tokens = {3, 10, 0, 7, 7, 1, 5};
  batch.labels.assign(7, -1);
  for (size_t t = 2; t < batch.tokens.size(); ++t) {
    const absl::Span<const float> logits =
        t == 2 ? decoder->Prefill({3, 10, 0}).value() : decoder->Prefill({batch.tokens[t]}).value();
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    for (int32_t label = 0; label < 11; ++label) {
      batch.labels[t] = label;
      ASSERT_TRUE(trainer.Evaluate(batch).ok());
      EXPECT_NEAR(trainer.micro_batch().loss_sum, std::log(sum) - logits[label], 1e-4)
          << t << ", " << label;
    }
    batch.labels[t] = -1;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, DecoderOfModelTest,
    ::testing::Combine(
        ::testing::Values("", "activation: SWIGLU feed_forward: 24"),
        ::testing::Values("", "norm: RMS_NORM no_biases: true"),
        ::testing::Values("", "positions: ROTARY"), ::testing::Values("", "kv_heads: 2"),
        ::testing::Values("", "separate_head: true vocabulary: 11 pad_vocabulary_to: 16")));

}  // namespace
}  // namespace muster
