#include "common/tokenizer/tokenizer_identity.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TokenizerIdentityTest, AnotherOneIsRefusedAndBothAreNamed) {
  EXPECT_TRUE(CheckSameTokenizer("job j", {7, "a.json"}, {7, "b.tokens"}).ok());
  const absl::Status status = CheckSameTokenizer("job j", {7, "a.json"}, {8, "b.tokens"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("job j learned from tokens of a.json (tokenizer 0000000000000007)"),
                    HasSubstr("b.tokens has another tokenizer (0000000000000008)")));
}

TEST(TokenizerIdentityTest, GoesThroughMetadata) {
  std::map<std::string, std::string> metadata = {{"job", "j"}};
  EXPECT_FALSE(TokenizerOfMetadata(metadata).has_value());
  AddToMetadata({0xfedcba9876543210, "a.json"}, metadata);
  EXPECT_EQ(metadata.size(), 3u);
  const auto read = TokenizerOfMetadata(metadata);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->fingerprint, 0xfedcba9876543210);
  EXPECT_EQ(read->name, "a.json");
  metadata["tokenizer_fingerprint"] = "none";
  EXPECT_FALSE(TokenizerOfMetadata(metadata).has_value());
}

}  // namespace
}  // namespace muster
