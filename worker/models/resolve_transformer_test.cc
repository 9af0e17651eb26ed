#include "worker/models/resolve_transformer.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<TransformerShape> Resolve(const std::string& fields, int64_t vocabulary = 256) {
  v1::TransformerSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers: 2 width: 96 heads: 6 context: 32", &spec));
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(fields, &spec)) << fields;
  return ResolveTransformer(spec, vocabulary);
}

TEST(ResolveTransformerTest, Defaults) {
  const TransformerShape shape = *Resolve("");
  EXPECT_EQ(shape.kv_heads, 6);
  EXPECT_EQ(shape.feed_forward, 384);
  EXPECT_EQ(shape.vocabulary, 256);
  EXPECT_EQ(shape.norm, TransformerShape::Norm::kLayerNorm);
  EXPECT_EQ(shape.positions, TransformerShape::Positions::kLearned);
  EXPECT_EQ(shape.activation, TransformerShape::Activation::kGelu);
  EXPECT_TRUE(shape.tied_head);
  EXPECT_TRUE(shape.biases);
  EXPECT_EQ(shape.dropout, 0);
  EXPECT_EQ(shape.attention_dropout, 0);
  EXPECT_EQ(shape.rotary.base, 10000);
  EXPECT_EQ(shape.norm_epsilon, 1e-5f);
  EXPECT_EQ(shape.head_dim(), 16);
  EXPECT_EQ(shape.qkv_width(), 3 * 96);
  EXPECT_EQ(shape.units(), 4);
}

TEST(ResolveTransformerTest, WhatIsGivenIsTaken) {
  const TransformerShape shape = *Resolve(
      "kv_heads: 2 vocabulary: 300 norm: RMS_NORM positions: ROTARY activation: SWIGLU "
      "separate_head: true no_biases: true dropout: 0.25 attention_dropout: 0.5 label_smoothing: "
      "0.125 z_loss: 0.5 "
      "rotary_base: 500000 norm_epsilon: 1e-6");
  EXPECT_EQ(shape.qkv_width(), 10 * 16);
  EXPECT_EQ(shape.vocabulary, 300);
  // 8/3 of the width, in whole 64s.
  EXPECT_EQ(shape.feed_forward, 256);
  EXPECT_EQ(shape.up_width(), 512);
  EXPECT_EQ(shape.norm, TransformerShape::Norm::kRmsNorm);
  EXPECT_FALSE(shape.tied_head);
  EXPECT_FALSE(shape.biases);
  EXPECT_EQ(shape.dropout, 0.25f);
  EXPECT_EQ(shape.attention_dropout, 0.5f);
  EXPECT_EQ(shape.label_smoothing, 0.125f);
  EXPECT_EQ(shape.logits_z, 0.5f);
  EXPECT_EQ(shape.rotary.base, 500000);
  EXPECT_EQ(shape.norm_epsilon, 1e-6f);
  EXPECT_EQ(Resolve("feed_forward: 100 activation: SWIGLU")->feed_forward, 100);
}

TEST(ResolveTransformerTest, HeadsNeedNotShareOutTheWidth) {
  const TransformerShape shape =
      *Resolve("kv_heads: 2 head_width: 20 no_biases: true attention_biases: true");
  EXPECT_EQ(shape.head_dim(), 20);
  EXPECT_EQ(shape.attention_width(), 120);
  EXPECT_EQ(shape.qkv_width(), 200);
  EXPECT_TRUE(shape.attention_biases);
}

TEST(ResolveTransformerTest, NormsOfQueriesAndKeys) {
  using Norm = TransformerShape::QueryKeyNorm;
  EXPECT_EQ(Resolve("query_key_norm: NONE")->query_key_norm, Norm::kNone);
  EXPECT_EQ(Resolve("query_key_norm: NONE")->normed_columns(), 0);
  const TransformerShape per_head = *Resolve("kv_heads: 2 query_key_norm: PER_HEAD");
  EXPECT_EQ(per_head.query_key_norm, Norm::kPerHead);
  EXPECT_EQ(per_head.normed_columns(), 8 * 16);
  EXPECT_EQ(per_head.HeadsOfNorm(6), 1);
  const TransformerShape whole = *Resolve("kv_heads: 2 query_key_norm: WHOLE_WIDTH");
  EXPECT_EQ(whole.query_key_norm, Norm::kWholeWidth);
  EXPECT_EQ(whole.HeadsOfNorm(6), 6);
}

TEST(ResolveTransformerTest, AnglesAreScaledByWhatIsGivenOrUsual) {
  using Scaling = RotaryAngles::Scaling;
  const auto angles = [](const std::string& scaling) {
    return Resolve("positions: ROTARY rotary_scaling { factor: 8 " + scaling + " }")->rotary;
  };
  EXPECT_EQ(Resolve("positions: ROTARY")->rotary.scaling, Scaling::kNone);
  EXPECT_EQ(angles("type: LINEAR").scaling, Scaling::kLinear);
  EXPECT_EQ(angles("type: LINEAR").factor, 8);
  RotaryAngles made = angles("type: LLAMA3 original_context: 512");
  EXPECT_EQ(made.scaling, Scaling::kLlama3);
  EXPECT_EQ(made.original_context, 512);
  EXPECT_EQ(made.low_factor, 1);
  EXPECT_EQ(made.high_factor, 4);
  EXPECT_EQ(made.amplitude, 1);
  made = angles("type: LLAMA3 original_context: 512 low_factor: 2 high_factor: 3");
  EXPECT_EQ(made.low_factor, 2);
  EXPECT_EQ(made.high_factor, 3);
  made = angles("type: YARN original_context: 512");
  EXPECT_EQ(made.scaling, Scaling::kYarn);
  EXPECT_EQ(made.beta_fast, 32);
  EXPECT_EQ(made.beta_slow, 1);
  EXPECT_DOUBLE_EQ(made.amplitude, 1.2079441541679836);
  made = angles("type: YARN original_context: 512 beta_fast: 16 beta_slow: 2 attention_factor: 1");
  EXPECT_EQ(made.beta_fast, 16);
  EXPECT_EQ(made.beta_slow, 2);
  EXPECT_EQ(made.amplitude, 1);
  // The context is four times as long, and heads are of 16: base (8 · 4 - 7)^(16 / 14).
  made = angles("type: DYNAMIC original_context: 8");
  EXPECT_EQ(made.scaling, Scaling::kNone);
  EXPECT_NEAR(made.base, 10000 * std::pow(25.0, 16.0 / 14), 1e-6 * made.base);
  EXPECT_EQ(angles("type: DYNAMIC original_context: 64").base, 10000) << "not longer";
}

TEST(ResolveTransformerTest, SomeLayersHaveNoWindow) {
  const auto shape = Resolve("sliding_window: 5 whole_layers: 1");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->WindowOf(0), 5);
  EXPECT_EQ(shape->WindowOf(1), 0);
}

TEST(ResolveTransformerTest, Padding) {
  EXPECT_EQ(Resolve("vocabulary: 300")->vocabulary_rows(), 300);
  EXPECT_EQ(Resolve("vocabulary: 300 pad_vocabulary_to: 1")->vocabulary_rows(), 300);
  EXPECT_EQ(Resolve("vocabulary: 300 pad_vocabulary_to: 64")->vocabulary_rows(), 320);
  EXPECT_EQ(Resolve("vocabulary: 300 pad_vocabulary_to: 64")->vocabulary, 300);
  EXPECT_EQ(Resolve("vocabulary: 320 pad_vocabulary_to: 64")->vocabulary_rows(), 320);
}

TEST(ResolveTransformerTest, Refusals) {
  const struct {
    const char* fields;
    const char* field;
    const char* value;
  } cases[] = {{"layers: 0", "layers", "0"},
               {"width: 100", "width", "100"},
               {"kv_heads: 4", "heads", "4"},
               {"heads: 0", "heads", "0"},
               {"width: 1024 heads: 2", "heads", "512"},
               {"width: 90 positions: ROTARY", "positions", "15"},
               {"head_width: 300", "head_width", "300"},
               {"sliding_window: 2000000", "sliding_window", "2000000"},
               {"context: 1", "context", "1"},
               {"dropout: 1", "dropout", "1"},
               {"dropout: nan", "dropout", "nan"},
               {"attention_dropout: 1.5", "attention_dropout", "1.5"},
               {"label_smoothing: 1", "label_smoothing", "1"},
               {"z_loss: -1", "z_loss", "-1"},
               {"z_loss: inf", "z_loss", "inf"},
               {"rotary_base: 0.5", "rotary_base", "0.5"},
               {"norm_epsilon: -1", "norm_epsilon", "-1"},
               {"vocabulary: 100", "vocabulary", "256"},
               {"pad_vocabulary_to: 64", "pad_vocabulary_to", "64"},
               {"vocabulary: 300 pad_vocabulary_to: 100000", "pad_vocabulary_to", "100000"}};
  for (const auto& c : cases) {
    const absl::Status status = Resolve(c.fields).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.fields;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(c.field), HasSubstr(c.value))) << c.fields;
  }
}

}  // namespace
}  // namespace muster
