#include "common/daemon/parse_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/base/version.h"
#include "common/daemon/utf8_flag.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class ParseFlagsTest : public testing::Test {
 protected:
  ParseFlagsTest() { app_.add_option("--port", port_); }

  std::optional<int> Parse(std::vector<const char*> words) {
    words.insert(words.begin(), "program");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const std::optional<int> code = ParseFlags(app_, words.size(), words.data());
    out_ = testing::internal::GetCapturedStdout();
    error_ = testing::internal::GetCapturedStderr();
    return code;
  }

  CLI::App app_;
  int port_ = 0;
  std::string out_;
  std::string error_;
};

TEST_F(ParseFlagsTest, GoesOnWithFlagsThatAreRight) {
  EXPECT_EQ(Parse({"--port=7"}), std::nullopt);
  EXPECT_EQ(port_, 7);
  EXPECT_EQ(out_ + error_, "");
}

TEST_F(ParseFlagsTest, HelpIsASuccess) {
  EXPECT_EQ(Parse({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("--port"));
}

TEST_F(ParseFlagsTest, EveryProgramPrintsReleaseCommitAndBuild) {
  app_.name("muster-program");
  EXPECT_EQ(Parse({"--version"}), 0);
  EXPECT_THAT(out_, MatchesRegex("muster-program [0-9.]+ \\(commit [^;]+; [^;]+\\)\n"));
  EXPECT_EQ(out_, VersionLine("muster-program") + "\n");
  EXPECT_EQ(error_, "");
}

TEST_F(ParseFlagsTest, WhatIsWrongIsNamedAndExitsWith2) {
  EXPECT_EQ(Parse({"--prot=7"}), 2);
  EXPECT_THAT(error_, HasSubstr("--prot=7"));
  EXPECT_THAT(error_, HasSubstr("Did you mean --port?"));
  EXPECT_EQ(Parse({"--port=seven"}), 2);
  EXPECT_THAT(error_, HasSubstr("seven"));
  EXPECT_EQ(out_, "");
}

TEST_F(ParseFlagsTest, AFlagThatHasToBeUtf8IsRefusedByName) {
  std::string folder;
  app_.add_option("--data-dir", folder)->check(Utf8Flag());
  EXPECT_EQ(Parse({"--data-dir", "/tmp/gr\xc3\xb6sse"}), std::nullopt);
  EXPECT_EQ(Parse({"--data-dir", "/tmp/gr\xf6sse"}), 2);
  EXPECT_THAT(error_, HasSubstr("--data-dir: /tmp/gr\\xf6sse is not UTF-8"));
}

}  // namespace
}  // namespace muster
