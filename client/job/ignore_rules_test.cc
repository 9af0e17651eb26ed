#include "client/job/ignore_rules.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(IgnoreRulesTest, PatternsFitNamesOrWholePaths) {
  struct Case {
    const char* pattern;
    const char* path;
    IgnoreRules::Kind kind;
    bool fits;
  };
  constexpr auto kFile = IgnoreRules::Kind::kFile, kFolder = IgnoreRules::Kind::kFolder;
  for (const Case& each : {
           Case{"*.pt", "model.pt", kFile, true},
           Case{"*.pt", "deep/er/model.pt", kFile, true},
           Case{"*.pt", "model.pth", kFile, false},
           Case{"data", "data", kFolder, true},
           Case{"data", "a/data", kFile, true},
           Case{"data/", "data", kFile, false},
           Case{"data/", "a/data", kFolder, true},
           Case{"/data", "data", kFolder, true},
           Case{"/data", "a/data", kFolder, false},
           Case{"a/data", "a/data", kFolder, true},
           Case{"a/data", "b/a/data", kFolder, false},
           Case{"a/*", "a/b", kFile, true},
           Case{"a/*", "a/b/c", kFile, false},
           Case{"a/*/c", "a/b/c", kFile, true},
           Case{"a?b", "axb", kFile, true},
           Case{"a?b", "a/b", kFile, false},
           Case{"*a*b", "xaxab", kFile, true},
           Case{"*a*b", "xaxba", kFile, false},
           Case{"*", "anything", kFile, true},
           Case{"# data", "# data", kFile, false},
           Case{"", "a", kFile, false},
       }) {
    const auto rules = IgnoreRules::Parse(each.pattern, "here");
    ASSERT_TRUE(rules.ok()) << rules.status();
    EXPECT_EQ(rules->Fits(each.path, each.kind), each.fits) << each.pattern << " " << each.path;
  }
  EXPECT_FALSE(IgnoreRules().Fits("a", kFile));
}

TEST(IgnoreRulesTest, AnyLineMayFit) {
  const auto rules = IgnoreRules::Parse("# comment\n\n  *.log \r\nruns/\n", "here");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_TRUE(rules->Fits("a.log", IgnoreRules::Kind::kFile));
  EXPECT_TRUE(rules->Fits("runs", IgnoreRules::Kind::kFolder));
  EXPECT_FALSE(rules->Fits("train.py", IgnoreRules::Kind::kFile));
}

TEST(IgnoreRulesTest, WhatIsNotUnderstoodIsRefused) {
  for (const char* pattern : {"!keep", "a/**/b", "[ab]", "a\\ b"}) {
    const auto rules = IgnoreRules::Parse(std::string("fine\n") + pattern, "the/file");
    EXPECT_EQ(rules.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_THAT(std::string(rules.status().message()), HasSubstr("the/file:2: "));
  }
}

}  // namespace
}  // namespace muster
