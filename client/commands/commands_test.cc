// All commands print text that is safe, JSON on demand, and errors with a code of their kind.
#include <grpcpp/grpcpp.h>
#include <stdlib.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cluster/cluster_folder.h"
#include "client/cluster/exit_code.h"
#include "client/cluster/session.h"
#include "client/command_line.h"
#include "client/commands/commands_fixture.h"
#include "common/text/printable.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {

Shown CommandsTest::Run(const std::vector<std::string>& words) {
  Session session;
  session.coordinator_address = address_;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Shown shown;
  shown.exit_code = RunCommandLine(words, session);
  shown.out = testing::internal::GetCapturedStdout();
  shown.error = testing::internal::GetCapturedStderr();
  return shown;
}

namespace {

using ::testing::HasSubstr;

TEST_F(CommandsTest, NothingThatACoordinatorSaysSteersTheTerminal) {
  const std::vector<std::vector<std::string>> commands = {
      {"list"},
      {"status", "j1"},
      {"status", "j1", "--collectives"},
      {"watch", "j1"},
      {"logs", "j1"},
      {"events", "j1"},
      {"history", "j1"},
      {"history", "j1", "--output", "csv"},
      {"tensorboard", "j1", "--out", testing::TempDir() + "/evil"},
      {"report", "j1", "--force", "--out", testing::TempDir() + "/evil.html"},
      {"trace", "j1", "--force", "--out", testing::TempDir() + "/trace.json"},
      {"top", "--once"},
      {"cancel", "j1"},
      {"describe", "j1", "why"},
      {"checkpoint", "list", "j1"},
      {"checkpoint", "verify", "j1"},
      {"checkpoint", "delete", "j1@4"},
      {"checkpoint", "delete", "j1@best"},
      {"evaluate", "j1"},
      {"evaluate", "j1@best"},
      {"cluster"},
      {"doctor"},
      {"doctor", "--all"},
      {"drain", "s1"},
      {"metrics"},
  };
  for (std::vector<std::string> words : commands) {
    for (const char* output : {"", "json"}) {
      if (*output != '\0') words.insert(words.end(), {"--output", output});
      SCOPED_TRACE(absl::StrCat(words[0], " ", output));
      const Shown shown = Run(words);
      EXPECT_EQ(shown.out, PrintableText(shown.out));
      EXPECT_EQ(shown.error, PrintableText(shown.error));
      // A cancelled job's line has nothing but its id and numbers.
      if (words[0] == "cancel" && *output == '\0') continue;
      EXPECT_THAT(shown.out + shown.error, HasSubstr("evil")) << "the test shows nothing of it";
    }
  }
}

TEST_F(CommandsTest, DoctorSaysWhatKeepsItFromTheCoordinator) {
  const Shown judged = Run({"doctor"});
  EXPECT_EQ(judged.exit_code, kFailure);
  EXPECT_THAT(judged.out, HasSubstr("PROBLEM"));
  EXPECT_THAT(judged.error, HasSubstr("the examination found"));
  EXPECT_EQ(Run({"doctor", "--wait", "4"}).exit_code, kUsage);
  // Nobody listens any more, and what can be checked from here is.
  server_->Shutdown();
  const Shown refused = Run({"doctor"});
  EXPECT_EQ(refused.exit_code, kUnreachable);
  EXPECT_THAT(refused.out, HasSubstr("Nothing takes connections at " + address_));
  EXPECT_THAT(refused.out, HasSubstr("muster up"));
  address_ = "no.such.host.invalid:7000";
  EXPECT_THAT(Run({"doctor"}).out, HasSubstr("host is not known here"));
  address_ = "nowhere";
  EXPECT_THAT(Run({"doctor"}).out, HasSubstr("is not HOST:PORT"));
  // A coordinator of an earlier release.
  grpc::ServerBuilder earlier;
  int port = 0;
  earlier.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  earlier.RegisterService(&coordinator_);
  const auto server = earlier.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
  EXPECT_THAT(Run({"doctor"}).out, HasSubstr("knows no examinations"));
}

// Every command, with hostile arguments where it does not ask the coordinator.
TEST_F(CommandsTest, JsonIsWhatEveryCommandPrintsWhateverGoesWrong) {
  const std::string none = testing::TempDir() + "/none-\xf6\x1b[2J";
  const std::map<std::string, std::vector<std::string>> arguments = {
      {"up", {"--data-dir", "/dev/null/\xf6"}},
      {"down", {"--data-dir", none}},
      {"demo", {"--data", none}},
      {"init", {"--data", none}},
      {"validate", {none}},
      {"plan", {none}},
      {"submit", {none}},
      {"list", {}},
      {"status", {"j1"}},
      {"watch", {"j1"}},
      {"logs", {"j1"}},
      {"events", {"j1"}},
      {"history", {"j1"}},
      {"tensorboard", {"j1", "--out", none + "/\xf6"}},
      {"report", {"j1", "--out", none + "/\xf6"}},
      {"trace", {"j1", "--out", none + "/\xf6"}},
      {"top", {}},
      {"cancel", {"j1"}},
      {"delete", {"j1"}},
      {"describe", {"j1", "why"}},
      {"checkpoint list", {"j1"}},
      {"checkpoint verify", {"j1"}},
      {"checkpoint delete", {"j1@4"}},
      {"checkpoint restore", {"j1@4", "--watch"}},
      {"evaluate", {"j1"}},
      {"predict", {"j1", "--data", none, "--out", none + "/\xf6"}},
      {"export", {"j1", "--out", none + "/\xf6"}},
      {"tokenizer train", {"--data", none, "--vocabulary", "300", "--out", none}},
      {"tokenizer chat", {"--data", none, "--model", none}},
      {"data inspect", {none}},
      {"data tokenize", {"--data", none, "--tokenizer", "bytes", "--out", none + "/\xf6"}},
      {"generate", {"j\xf6", "--prompt", "\xf6"}},
      {"import", {none, "--out", none}},
      {"compare", {none}},
      {"prove", {none}},
      {"cluster", {}},
      {"doctor", {}},
      {"drain", {"s1"}},
      {"undrain", {"s1"}},
      {"rebalance", {"j1"}},
      {"metrics", {}},
      {"bench", {"\xf6"}},
      {"chaos", {"--folder", "/dev/null/\xf6"}},
      {"help", {"\xf6\x1b[2J"}},
      {"version", {}},
      {"completion", {"\xf6"}},
  };
  for (const std::vector<std::string>& command : AllCommands()) {
    const std::string name = absl::StrJoin(command, " ");
    SCOPED_TRACE(name);
    const auto found = arguments.find(name);
    if (found == arguments.end()) {
      ADD_FAILURE() << "a new command: add arguments for it";
      continue;
    }
    std::vector<std::string> words = command;
    words.insert(words.end(), found->second.begin(), found->second.end());
    words.insert(words.end(), {"--output", "json"});
    const Shown shown = Run(words);
    const std::vector<nlohmann::json> values = Values(shown.out);
    EXPECT_EQ(shown.out + shown.error, PrintableText(shown.out + shown.error));
    // Which files are damaged is a result, told where others are.
    if (shown.exit_code == kSuccess || name == "checkpoint verify") {
      EXPECT_FALSE(values.empty());
      continue;
    }
    // Its last line tells of the error.
    const size_t end = shown.error.rfind('\n');
    ASSERT_NE(end, std::string::npos);
    const size_t before = end == 0 ? std::string::npos : shown.error.rfind('\n', end - 1);
    const std::vector<nlohmann::json> told =
        Values(shown.error.substr(before == std::string::npos ? 0 : before + 1));
    ASSERT_EQ(told.size(), 1u) << shown.error;
    ASSERT_TRUE(told[0].contains("error")) << shown.error;
    EXPECT_EQ(told[0]["error"]["exit_code"], shown.exit_code);
    EXPECT_TRUE(told[0]["error"]["code"].is_string());
    EXPECT_TRUE(told[0]["error"]["message"].is_string());
  }
}

TEST_F(CommandsTest, JsonOfManyJobsIsWhole) {
  coordinator_.jobs = 3000;
  const Shown shown = Run({"list", "--output", "json"});
  const std::vector<nlohmann::json> values = Values(shown.out);
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(values[0]["jobs"].size(), 3000u);
  // JSON has no numbers that are not finite.
  EXPECT_EQ(values[0]["jobs"][0]["progress"]["loss"], "-Infinity");
}

TEST_F(CommandsTest, AValueMakesNoLinesOfItsOwn) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"list"},
                                             {"status", "j1"},
                                             {"events", "j1"},
                                             {"history", "j1"},
                                             {"history", "j1", "--output", "csv"},
                                             {"watch", "j1"},
                                             {"cluster"},
                                             {"checkpoint", "verify", "j1"},
                                             {"drain", "s1"},
                                             {"evaluate", "j1"}}) {
    const Shown shown = Run(words);
    EXPECT_FALSE(absl::StrContains(shown.out + shown.error, "\nmuster: all is well")) << words[0];
  }
}

TEST_F(CommandsTest, WhatIsNotUtf8IsRefusedByName) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"status", "j\xf6"},
                                             {"watch", "j\xf6"},
                                             {"logs", "j\xf6"},
                                             {"cancel", "j1", "--reason", "j\xf6"},
                                             {"describe", "j1", "j\xf6"},
                                             {"drain", "j\xf6"},
                                             {"evaluate", "j\xf6"}}) {
    const Shown shown = Run(words);
    EXPECT_EQ(shown.exit_code, kUsage) << words[0];
    EXPECT_THAT(shown.error, HasSubstr("is not UTF-8: j\\xf6")) << words[0];
  }
  EXPECT_TRUE(coordinator_.cancelled.empty());
}

TEST_F(CommandsTest, AJobFileThatIsNotUtf8IsRefusedByField) {
  const std::string file = testing::TempDir() + "/job.textproto";
  std::ofstream(file) << "name: \"text\" data { text { path: \"gr\xf6sse.txt\" } }";
  // Whether a cluster runs makes no difference.
  server_->Shutdown();
  const Shown shown = Run({"submit", file});
  EXPECT_EQ(shown.exit_code, kUsage);
  EXPECT_THAT(shown.error, HasSubstr("data.text.path is not UTF-8: "));
  EXPECT_THAT(shown.error, HasSubstr("gr\\xf6sse.txt"));
}

TEST_F(CommandsTest, WhereNoCoordinatorAnswersTheClustersOfThisMachineAreNamed) {
  const std::string home = testing::TempDir() + "/clusters";
  setenv("HOME", home.c_str(), 1);
  const ClusterFolder folder(home + "/one");
  ASSERT_TRUE(folder.Prepare().ok());
  const auto lock = folder.TakeLock();
  ASSERT_TRUE(lock.ok());
  ASSERT_TRUE(folder.Write({.coordinator_address = "127.0.0.1:7"}).ok());
  ASSERT_TRUE(SetCurrentClusterFolder(folder.path()).ok());
  const std::string named = absl::StrCat("; on this machine run: --data-dir ", folder.path(),
                                         " (coordinator 127.0.0.1:7)");
  for (const std::vector<std::string>& other : std::vector<std::vector<std::string>>{
           {"--coordinator", "127.0.0.1:1"}, {"--data-dir", home + "/two"}}) {
    std::vector<std::string> words = {"list"};
    words.insert(words.end(), other.begin(), other.end());
    Session session;
    testing::internal::CaptureStderr();
    EXPECT_EQ(RunCommandLine(words, session), kUnreachable);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(named));
  }
}

TEST_F(CommandsTest, OnlyACoordinatorThatDoesNotAnswerExitsWith4) {
  // A file that cannot be written is no cluster that cannot be reached.
  const std::string folder = testing::TempDir();
  const Shown local = Run(
      {"data", "tokenize", "--data", "/proc/self/status", "--tokenizer", "bytes", "--out", folder});
  EXPECT_EQ(local.exit_code, kUsage) << local.error;
  EXPECT_THAT(local.error, HasSubstr(folder));
  EXPECT_EQ(ExitCodeFor(absl::UnavailableError("a port is in use")), kFailure);
  EXPECT_EQ(ExitCodeFor(absl::DeadlineExceededError("it still runs")), kFailure);
  server_->Shutdown();
  EXPECT_EQ(Run({"list"}).exit_code, kUnreachable);
  const Shown cancelled = Run({"cancel", "j1-0000"});
  EXPECT_EQ(cancelled.exit_code, kUnreachable);
  EXPECT_THAT(cancelled.error, HasSubstr("as far as is known the job goes on"));
}

}  // namespace
}  // namespace muster
