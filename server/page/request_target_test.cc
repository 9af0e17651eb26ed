#include "server/page/request_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ParseTargetTest, DecodesPathAndQuery) {
  const auto root = ParseTarget("/");
  ASSERT_TRUE(root.ok());
  EXPECT_THAT(root->path, IsEmpty());
  EXPECT_THAT(root->query, IsEmpty());
  const auto target = ParseTarget("/jobs/a%2Fb%20+/?series=train%2F*&from=1+2&flag&x==%3D&");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_THAT(target->path, ElementsAre("jobs", "a/b +", ""));
  EXPECT_THAT(target->query, ElementsAre(Pair("series", "train/*"), Pair("from", "1 2"),
                                         Pair("flag", ""), Pair("x", "=="), Pair("", "")));
  EXPECT_THAT(ParseTarget("/?")->query, IsEmpty());
  // Dots are names like others: nothing here opens files.
  EXPECT_THAT(ParseTarget("/assets/../%2e%2e/x")->path, ElementsAre("assets", "..", "..", "x"));
}

TEST(ParseTargetTest, RefusesOtherFormsAndBadText) {
  std::string many_fields = "/?a";
  for (int i = 0; i < 64; ++i) many_fields += "&a";
  for (const std::string& target : {std::string(),
                                    std::string("*"),
                                    std::string("a"),
                                    std::string("http://localhost/"),
                                    std::string("//localhost/"),
                                    std::string("/#a"),
                                    std::string("/a%"),
                                    std::string("/a%2"),
                                    std::string("/a%2g"),
                                    std::string("/a%00"),
                                    std::string("/a%0d%0a"),
                                    std::string("/a%7f"),
                                    std::string("/%ff"),
                                    std::string("/%c0%af"),
                                    std::string("/?a=%00"),
                                    std::string("/?%zz"),
                                    std::string("/\t"),
                                    std::string("/a\0b", 4),
                                    std::string(40, '/'),
                                    many_fields}) {
    EXPECT_EQ(ParseTarget(target).status().code(), absl::StatusCode::kInvalidArgument) << target;
  }
}

}  // namespace
}  // namespace muster
