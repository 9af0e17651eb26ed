#include "common/job/validation/attention_validator.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

absl::Status Check(const std::string& fields) {
  v1::TransformerSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("layers: 3 width: 64 context: 32 ", fields), &spec))
      << fields;
  return ValidateAttention(spec);
}

TEST(AttentionValidatorTest, TakesWhatCanBeComputed) {
  for (const char* fields :
       {"heads: 4", "heads: 4 kv_heads: 2 positions: ROTARY rotary_base: 500000",
        "heads: 5 head_width: 128", "heads: 4 head_width: 7 attention_biases: true",
        "heads: 4 query_key_norm: NONE", "heads: 4 query_key_norm: PER_HEAD",
        "heads: 4 query_key_norm: WHOLE_WIDTH", "heads: 4 sliding_window: 16",
        "heads: 4 sliding_window: 16 whole_layers: [ 0, 2 ]",
        "heads: 4 positions: ROTARY rotary_scaling { type: LINEAR factor: 2 }",
        "heads: 4 positions: ROTARY rotary_scaling { type: DYNAMIC factor: 2 original_context: 9 }",
        "heads: 4 positions: ROTARY rotary_scaling { type: LLAMA3 factor: 8 original_context: 9 }",
        "heads: 4 positions: ROTARY rotary_scaling { type: YARN factor: 4 original_context: 9 "
        "beta_fast: 16 beta_slow: 2 attention_factor: 1 }"}) {
    EXPECT_EQ(Check(fields), absl::OkStatus()) << fields;
  }
}

TEST(AttentionValidatorTest, NamesWhatCannot) {
  const struct {
    const char* fields;
    const char* field;
    const char* remedy;
  } cases[] = {
      {"", "heads is 0", "from 1 to 64"},
      {"heads: 65 head_width: 2", "heads is 65", "from 1 to 64"},
      {"heads: 5", "width is 64", "multiple of model.transformer.heads, which is 5"},
      {"heads: 4 kv_heads: 3", "heads is 4", "multiple of model.transformer.kv_heads"},
      {"heads: 4 head_width: 257", "head_width is 257", "at most 256"},
      {"heads: 4 head_width: 7 positions: ROTARY", "positions is ROTARY", "7 wide (head_width)"},
      {"heads: 64 positions: ROTARY", "positions is ROTARY", "1 wide (width / heads)"},
      {"heads: 4 rotary_base: 0.5", "rotary_base is 0.5", "above 1"},
      {"heads: 4 query_key_norm: 9", "query_key_norm is 9", "NONE, PER_HEAD or WHOLE_WIDTH"},
      {"heads: 4 sliding_window: 2000000", "sliding_window is 2000000", "from 1 to 1048576"},
      {"heads: 4 whole_layers: 1", "whole_layers is 1", "no sliding_window"},
      {"heads: 4 sliding_window: 2 whole_layers: 3", "whole_layers is 3", "from 0 to 2"},
      {"heads: 4 sliding_window: 2 whole_layers: [ 1, 1 ]", "whole_layers is 1",
       "in order, each once"},
      {"heads: 32 positions: ROTARY rotary_scaling { type: DYNAMIC factor: 2 original_context: 9 }",
       "rotary_scaling.type is DYNAMIC", "2 wide, too narrow"},
      {"heads: 4 rotary_scaling { type: LINEAR factor: 2 }", "rotary_scaling is set",
       "positions are not ROTARY"},
  };
  for (const auto& [fields, field, remedy] : cases) {
    const absl::Status status = Check(fields);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << fields;
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("model.transformer.", field, "; ")));
    EXPECT_THAT(status.message(), HasSubstr(remedy));
  }
}

TEST(AttentionValidatorTest, NamesWhatASpecificationOfAnglesMustNotSay) {
  const struct {
    const char* scaling;
    const char* field;
    const char* remedy;
  } cases[] = {
      {"factor: 2", "type is 0", "LINEAR, LLAMA3, YARN or DYNAMIC"},
      {"type: LINEAR", "factor is 0", "at least 1"},
      {"type: LINEAR factor: inf", "factor is inf", "at least 1"},
      {"type: LINEAR factor: 2 original_context: 9", "original_context is 9", "leave it out"},
      {"type: LLAMA3 factor: 2", "original_context is 0", "first trained on"},
      {"type: LLAMA3 factor: 2 original_context: 9 low_factor: 5", "high_factor is 4",
       "above low_factor, which is 5"},
      {"type: LLAMA3 factor: 2 original_context: 9 low_factor: -1", "low_factor is -1", "above 0"},
      {"type: LLAMA3 factor: 2 original_context: 9 beta_fast: 3", "beta_fast is 3", "type: YARN"},
      {"type: LLAMA3 factor: 2 original_context: 9 attention_factor: 3", "attention_factor is 3",
       "type: YARN"},
      {"type: YARN factor: 2 original_context: 9 low_factor: 3", "low_factor is 3", "type: LLAMA3"},
      {"type: YARN factor: 2 original_context: 9 beta_slow: 40", "beta_fast is 32",
       "above beta_slow, which is 40"},
      {"type: YARN factor: 2 original_context: 9 beta_slow: -1", "beta_slow is -1", "above 0"},
      {"type: YARN factor: 2 original_context: 9 attention_factor: nan", "attention_factor is nan",
       "above 0"},
  };
  for (const auto& [scaling, field, remedy] : cases) {
    const absl::Status status =
        Check(absl::StrCat("heads: 4 positions: ROTARY rotary_scaling { ", scaling, " }"));
    EXPECT_THAT(status.message(),
                HasSubstr(absl::StrCat("model.transformer.rotary_scaling.", field, "; ")));
    EXPECT_THAT(status.message(), HasSubstr(remedy));
  }
}

}  // namespace
}  // namespace muster
