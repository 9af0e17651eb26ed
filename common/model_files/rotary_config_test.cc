#include "common/model_files/rotary_config.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using Scaling = v1::RotaryScaling;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Reads the keys of a model with a context of 4096; all of them must be known.
std::string ReadKeys(const Json& json, v1::TransformerSpec& spec) {
  spec.Clear();
  spec.set_context(4096);
  ConfigFields fields(json, "c");
  ReadRotary(fields, 10000, spec);
  fields.RefuseOthers();
  return std::string(fields.status().message());
}

Json WithType(const char* type, Json keys = Json::object()) {
  keys["rope_type"] = type;
  return {{"rope_scaling", keys}};
}

TEST(RotaryConfigTest, AnglesThatAreNotScaled) {
  v1::TransformerSpec spec;
  for (const Json& json :
       {Json::object(), Json({{"rope_scaling", nullptr}}), WithType("default"),
        Json({{"rope_scaling", {{"type", "default"}}}, {"partial_rotary_factor", 1.0}}),
        Json({{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 1}}}})}) {
    EXPECT_EQ(ReadKeys(json, spec), "") << json;
    EXPECT_EQ(spec.rotary_base(), 10000);
    EXPECT_FALSE(spec.has_rotary_scaling());
  }
  EXPECT_EQ(ReadKeys({{"rope_theta", 500}}, spec), "");
  EXPECT_EQ(spec.rotary_base(), 500);
  EXPECT_EQ(ReadKeys({{"rope_theta", 500}, {"rope_parameters", {{"rope_theta", 700}}}}, spec), "");
  EXPECT_EQ(spec.rotary_base(), 700);
}

TEST(RotaryConfigTest, ScaledAngles) {
  v1::TransformerSpec spec;
  EXPECT_EQ(ReadKeys({{"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}}, spec), "");
  EXPECT_EQ(spec.rotary_scaling().type(), Scaling::LINEAR);
  EXPECT_EQ(spec.rotary_scaling().factor(), 2.5f);
  EXPECT_EQ(ReadKeys(WithType("dynamic", {{"factor", 4}}), spec), "");
  EXPECT_EQ(spec.rotary_scaling().type(), Scaling::DYNAMIC);
  EXPECT_EQ(spec.rotary_scaling().factor(), 4);
  EXPECT_EQ(spec.rotary_scaling().original_context(), 4096u) << "the file's context";
  EXPECT_EQ(ReadKeys(WithType("llama3", {{"factor", 8.0},
                                         {"low_freq_factor", 1.5},
                                         {"high_freq_factor", 4.0},
                                         {"original_max_position_embeddings", 512}}),
                     spec),
            "");
  EXPECT_EQ(spec.rotary_scaling().type(), Scaling::LLAMA3);
  EXPECT_EQ(spec.rotary_scaling().original_context(), 512u);
  EXPECT_EQ(spec.rotary_scaling().low_factor(), 1.5f);
  EXPECT_EQ(spec.rotary_scaling().high_factor(), 4);
  // One is as Qwen publishes it, one has all keys that there may be.
  EXPECT_EQ(
      ReadKeys({{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}, {"rope_theta", 1e6}}}},
               spec),
      "");
  EXPECT_EQ(spec.rotary_base(), 1e6f);
  EXPECT_EQ(spec.rotary_scaling().type(), Scaling::YARN);
  EXPECT_EQ(spec.rotary_scaling().original_context(), 4096u) << "the context, if it is left out";
  EXPECT_EQ(spec.rotary_scaling().attention_factor(), 0);
  EXPECT_EQ(ReadKeys(WithType("yarn", {{"factor", 4.0},
                                       {"beta_fast", 16},
                                       {"beta_slow", 2},
                                       {"attention_factor", 1.25},
                                       {"truncate", true},
                                       {"original_max_position_embeddings", 512}}),
                     spec),
            "");
  EXPECT_EQ(spec.rotary_scaling().original_context(), 512u);
  EXPECT_EQ(spec.rotary_scaling().beta_fast(), 16);
  EXPECT_EQ(spec.rotary_scaling().beta_slow(), 2);
  EXPECT_EQ(spec.rotary_scaling().attention_factor(), 1.25f);
}

TEST(RotaryConfigTest, WhatIsWrittenIsReadBack) {
  for (const Scaling::Type type :
       {Scaling::LINEAR, Scaling::LLAMA3, Scaling::YARN, Scaling::DYNAMIC}) {
    v1::TransformerSpec spec, read;
    spec.set_context(4096);
    spec.set_rotary_base(3e5f);
    Scaling& scaling = *spec.mutable_rotary_scaling();
    scaling.set_type(type);
    scaling.set_factor(1.1f);
    if (type != Scaling::LINEAR) scaling.set_original_context(100);
    if (type == Scaling::LLAMA3) {
      scaling.set_low_factor(1.3f);
      scaling.set_high_factor(3);
    } else if (type == Scaling::YARN) {
      scaling.set_beta_fast(30);
      scaling.set_beta_slow(0.7f);
      scaling.set_attention_factor(1.2f);
    }
    Json json;
    WriteRotary(spec, json);
    EXPECT_EQ(ReadKeys(json, read), "");
    EXPECT_EQ(read.DebugString(), spec.DebugString());
  }
}

TEST(RotaryConfigTest, WhatIsNotUnderstoodIsRefusedByName) {
  v1::TransformerSpec spec;
  EXPECT_THAT(ReadKeys({{"partial_rotary_factor", 0.5}}, spec),
              HasSubstr("c: partial_rotary_factor is 0.5"));
  EXPECT_THAT(ReadKeys({{"rope_interleaved", true}}, spec), HasSubstr("rope_interleaved is true"));
  EXPECT_THAT(ReadKeys({{"rope_parameters", 3}}, spec), HasSubstr("rope_parameters is 3"));
  EXPECT_THAT(
      ReadKeys(WithType("longrope"), spec),
      AllOf(HasSubstr("c: rope_scaling is {\"rope_type\":\"longrope\"}; of these: rope_type "
                      "is \"longrope\"; only \"default\", \"linear\""),
            HasSubstr("are understood")));
  EXPECT_THAT(ReadKeys({{"rope_scaling", {{"type", "su"}}}}, spec),
              HasSubstr("of these: type is \"su\""));
  EXPECT_THAT(ReadKeys(WithType("default", {{"factor", 2}}), spec),
              HasSubstr("of these: factor is 2; no such key is known"));
  EXPECT_THAT(ReadKeys(WithType("linear"), spec), HasSubstr("of these: factor is null; expected"));
  EXPECT_THAT(ReadKeys(WithType("llama3", {{"factor", 2}}), spec),
              HasSubstr("of these: original_max_position_embeddings is null; expected"));
  EXPECT_THAT(ReadKeys(WithType("yarn", {{"factor", 2}, {"truncate", false}}), spec),
              HasSubstr("of these: truncate is false"));
  EXPECT_THAT(ReadKeys(WithType("yarn", {{"factor", 2}, {"mscale", 1.0}}), spec),
              HasSubstr("of these: mscale is 1.0"));
}

}  // namespace
}  // namespace muster
