#include "worker/models/resolve_transformer.h"

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
  EXPECT_EQ(shape.rotary_base, 10000);
  EXPECT_EQ(shape.norm_epsilon, 1e-5f);
  EXPECT_EQ(shape.head_dim(), 16);
  EXPECT_EQ(shape.qkv_width(), 3 * 96);
  EXPECT_EQ(shape.units(), 4);
}

TEST(ResolveTransformerTest, WhatIsGivenIsTaken) {
  const TransformerShape shape = *Resolve(
      "kv_heads: 2 vocabulary: 300 norm: RMS_NORM positions: ROTARY activation: SWIGLU "
      "separate_head: true no_biases: true dropout: 0.25 attention_dropout: 0.5 "
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
  EXPECT_EQ(shape.rotary_base, 500000);
  EXPECT_EQ(shape.norm_epsilon, 1e-6f);
  EXPECT_EQ(Resolve("feed_forward: 100 activation: SWIGLU")->feed_forward, 100);
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
               {"context: 1", "context", "1"},
               {"dropout: 1", "dropout", "1"},
               {"dropout: nan", "dropout", "nan"},
               {"attention_dropout: 1.5", "attention_dropout", "1.5"},
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
