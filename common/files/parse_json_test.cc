#include "common/files/parse_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Nested(size_t depth) { return std::string(depth, '[') + "1" + std::string(depth, ']'); }

TEST(ParseJsonTest, Values) {
  const auto json = ParseJson(R"({"a": [1, "x"], "b\"": {}})", "f", "an object");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["a"][1], "x");
  EXPECT_TRUE((*json)["b\""].is_object());
}

TEST(ParseJsonTest, AByteOrderMarkIsSkipped) {
  EXPECT_TRUE(ParseJson("\xef\xbb\xbf{\"a\": 1}", "f", "an object").ok());
}

TEST(ParseJsonTest, RefusesWhatIsNone) {
  for (const char* text : {"", "{", "[1,]", "x", "\"", "\"\\"}) {
    const absl::Status status = ParseJson(text, "file.json", "an object").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("file.json"), HasSubstr("expected an object")));
  }
  // Whoever reads the error may have no right to read the file.
  EXPECT_THAT(ParseJson("{\"a\": secret}", "f", "x").status().message(), Not(HasSubstr("secret")));
}

TEST(ParseJsonTest, RefusesWhatIsTooDeepToWalkOver) {
  EXPECT_TRUE(ParseJson(Nested(kMostJsonDepth), "f", "x").ok());
  EXPECT_THAT(ParseJson(Nested(kMostJsonDepth + 1), "f", "x").status().message(),
              HasSubstr("65 levels deep, at most 64"));
  // Deep enough to overflow a stack; with neither end.
  EXPECT_FALSE(ParseJson(Nested(3000000), "f", "x").ok());
  EXPECT_FALSE(ParseJson(std::string(3000000, '{'), "f", "x").ok());
}

TEST(ParseJsonTest, RefusesMoreValuesThanMemoryIsMeantFor) {
  std::string text = "[1";
  for (size_t i = 2; i < kMostJsonValues; ++i) text += ",1";
  EXPECT_TRUE(ParseJson(text + "]", "f", "x").ok());
  EXPECT_THAT(ParseJson(text + ",1]", "f", "x").status().message(),
              HasSubstr("f has 4194305 values, at most 4194304"));
}

TEST(ParseJsonTest, BracketsAndCommasInStringsAreText) {
  const std::string text = "[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"]";
  const auto json = ParseJson(text, "f", "x");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)[0].get<std::string>().size(), 2001u);
}

}  // namespace
}  // namespace muster
