// The commands that show what a coordinator says, against one whose every text is hostile.

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cluster/cluster_folder.h"
#include "client/cluster/exit_code.h"
#include "client/cluster/session.h"
#include "client/command_line.h"
#include "client/commands/hostile_coordinator_for_testing.h"
#include "client/commands/shown_for_testing.h"
#include "client/terminal/format.h"
#include "common/compression/packed_for_testing.h"
#include "common/text/printable.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() {
    // This is as `muster evaluate` needs it: threads that gRPC starts are not the ones that a
    // signal ends.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&coordinator_);
    builder.RegisterService(&examinations_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  Shown Run(const std::vector<std::string>& words) {
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

  HostileCoordinator coordinator_;
  HostileExaminations examinations_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

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

TEST_F(CommandsTest, ExportRefusesFormatsThatItDoesNotWrite) {
  for (const std::string ending : {".onnx", ".pt", ".gguf"}) {
    const Shown shown = Run({"export", "j1", "--out", testing::TempDir() + "/weights" + ending});
    EXPECT_EQ(shown.exit_code, kUsage);
    EXPECT_THAT(shown.error, HasSubstr("but export writes no " + ending +
                                       " files: name a file "
                                       ".safetensors"));
    EXPECT_FALSE(std::filesystem::exists(testing::TempDir() + "/weights" + ending));
  }
  // Who names the format may name the file as they like.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"/dev/null/weights.safetensors"},
        {"/dev/null/WEIGHTS.SafeTensors"},
        {"/dev/null/weights"},
        {"/dev/null/weights.bin", "--format", "safetensors"}}) {
    std::vector<std::string> command = {"export", "j1", "--out"};
    command.insert(command.end(), words.begin(), words.end());
    const Shown shown = Run(command);
    EXPECT_NE(shown.exit_code, kSuccess);
    EXPECT_THAT(shown.error, Not(HasSubstr("export writes no"))) << words[0];
  }
}

// The values that a text of JSON holds, one after another.
std::vector<nlohmann::json> Values(const std::string& text) {
  std::vector<nlohmann::json> values;
  std::istringstream in(text);
  try {
    while (in >> std::ws && in.peek() != std::istringstream::traits_type::eof()) {
      in >> values.emplace_back();
    }
  } catch (const nlohmann::json::exception& error) {
    ADD_FAILURE() << error.what() << " in:\n" << text;
  }
  return values;
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

TEST_F(CommandsTest, AStatusNamesWhatRanksDivide) {
  EXPECT_THAT(Run({"status", "j1"}).out, Not(HasSubstr("zero stage")));
  coordinator_.spec.set_workers(4);
  coordinator_.spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  coordinator_.spec.mutable_parallelism()->mutable_zero()->set_stage(3);
  EXPECT_THAT(Run({"status", "j1"}).out, HasSubstr("parallelism  zero stage 3 over 4 ranks\n"));
}

TEST_F(CommandsTest, AHistoryIsASummaryEveryPointOrJson) {
  Shown shown =
      Run({"history", "j1", "--series", "train/*,slot/?/step", "--from", "3", "--points", "9"});
  EXPECT_EQ(shown.exit_code, kSuccess) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("7-7"));
  EXPECT_THAT(coordinator_.read_metrics.series(), ElementsAre("train/*", "slot/?/step"));
  EXPECT_EQ(coordinator_.read_metrics.from_step(), 3u);
  EXPECT_EQ(coordinator_.read_metrics.max_points(), 9u);
  EXPECT_FALSE(coordinator_.read_metrics.follow());
  shown = Run({"history", "j1", "--output", "csv"});
  EXPECT_THAT(shown.out,
              StartsWith("series,first_step,last_step,values,min,max,mean,last,time_utc\n"));
  EXPECT_THAT(shown.out, HasSubstr(",7,7,1,0.125,0.125,0.125,0.125,\n"));
  const nlohmann::json json = Values(Run({"history", "j1", "--output", "json"}).out).at(0);
  EXPECT_EQ(json["series"][0]["points"].back()["mean"], 0.125);
  EXPECT_EQ(Values(Run({"--output", "json", "history", "j1"}).out).at(0), json);
  EXPECT_EQ(Run({"history", "j1", "--points", "1"}).exit_code, kUsage);
  EXPECT_EQ(Run({"list", "--output", "csv"}).exit_code, kUsage) << "a history alone is a table";
}

TEST_F(CommandsTest, AHistoryIsWrittenForTensorBoard) {
  const std::string out = testing::TempDir() + "/runs";
  const std::vector<std::string> words = {"tensorboard", "j1",      "--out",   out,
                                          "--series",    "train/*", "--follow"};
  Shown shown = Run(words);
  EXPECT_EQ(shown.exit_code, kSuccess) << shown.error;
  EXPECT_THAT(coordinator_.read_metrics.series(), ElementsAre("train/*"));
  EXPECT_TRUE(coordinator_.read_metrics.follow());
  EXPECT_THAT(shown.out, HasSubstr("until the job ends\n1 value written to " + out + "/"));
  shown = Run(words);
  EXPECT_EQ(shown.exit_code, kUsage);
  EXPECT_THAT(shown.error, HasSubstr("has event files already"));
}

TEST_F(CommandsTest, AHistoryFitsATerminalAndShowsRollBacks) {
  v1::MetricsChunk& history = coordinator_.history.emplace();
  for (const auto& [name, value] : {std::pair("speed/examples_per_second", 123456.789),
                                    std::pair("slot/0/memory_bytes", 1.23456789e10),
                                    std::pair("train/learning_rate", 1.23456789e-5)}) {
    v1::Series& series = *history.add_series();
    series.set_name(name);
    for (uint64_t step : {1, 1'000'000}) {
      v1::SeriesPoint& point = *series.add_points();
      point.set_first_step(step);
      point.set_last_step(step);
      point.set_values(1);
      point.set_last(value);
    }
  }
  v1::HistoryMark& mark = *history.add_marks();
  mark.set_clock(900'000);
  mark.set_reached(1'000'000);
  Shown shown = Run({"history", "j1"});
  for (absl::string_view line : absl::StrSplit(shown.out, '\n'))
    EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(shown.out, HasSubstr("1-1000000"));
  EXPECT_THAT(shown.out, HasSubstr("went back from step 1000000 to step 900000"));
  EXPECT_THAT(Run({"history", "j1", "--output", "csv"}).out,
              HasSubstr("\nrollback,900000,1000000,,,,,,\n"));
  history.Clear();
  EXPECT_THAT(Run({"history", "j1"}).out, HasSubstr("nothing reported yet"));
  EXPECT_THAT(Run({"history", "j1", "--series", "x"}).out, HasSubstr("no values of these series"));
  EXPECT_THAT(Run({"history", "j1", "--from", "5"}).out, HasSubstr("no values of these series"));
}

TEST_F(CommandsTest, AListOfCheckpointsFitsATerminal) {
  const std::string folder = "/srv/clusters/experiments/checkpoints/long-name-of-a-job-1a2b3c";
  v1::ListCheckpointsReply& list = coordinator_.checkpoints.emplace();
  for (const uint64_t clock : {999'000, 1'000'000}) {
    v1::CheckpointStatus& checkpoint = *list.add_checkpoints();
    checkpoint.set_clock(clock);
    checkpoint.set_uri(absl::StrCat(folder, "/", clock));
    checkpoint.set_files(1000);
    checkpoint.set_bytes(uint64_t{1000} << 30);
  }
  list.mutable_checkpoints(1)->set_base_clock(999'000);
  list.mutable_checkpoints(1)->set_best(true);
  list.add_checkpoints()->set_clock(5);
  list.mutable_checkpoints(2)->set_damage("no manifest");
  list.mutable_checkpoints(2)->set_uri(absl::StrCat(folder, "/5"));
  const Shown shown = Run({"checkpoint", "list", "j1"});
  for (absl::string_view line : absl::StrSplit(shown.out, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
  EXPECT_THAT(shown.out, HasSubstr("1000000 best  delta on 999000"));
  EXPECT_THAT(shown.out,
              HasSubstr(absl::StrCat("\n5 is damaged: no manifest\nin ", folder, "/CLOCK\n")));
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

TEST_F(CommandsTest, AnEvaluationSaysWhatItWaitsForAndCtrlCCancelsIt) {
  coordinator_.watched = [] {
    // Once it has said so: standard error is a file here.
    struct stat error = {};
    while (fstat(STDERR_FILENO, &error) == 0 && error.st_size == 0) usleep(1000);
    kill(getpid(), SIGINT);
  };
  const Shown shown = Run({"evaluate", "j1"});
  EXPECT_EQ(shown.exit_code, kInterrupted);
  EXPECT_THAT(shown.error, HasSubstr("the evaluation e1 waits: evil"));
  EXPECT_THAT(shown.error, HasSubstr("the evaluation e1 is cancelled"));
  EXPECT_EQ(coordinator_.cancelled, std::vector<std::string>{"e1"});
  EXPECT_EQ(shown.out, "");
}

TEST_F(CommandsTest, CtrlCLeavesAWatchedJobAndSaysHowToFollowIt) {
  coordinator_.watched = [] { kill(getpid(), SIGINT); };
  const std::string file = testing::TempDir() + "/watched.textproto";
  std::ofstream(file) << "name: \"text\" data { text { path: \"text.txt\" } }";
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"watch", "j1"}, "j1"},
      {{"submit", file, "--watch"}, "e1"},
      {{"checkpoint", "restore", "j1@4", "--watch"}, "e1"}};
  for (const auto& [words, job] : commands) {
    const Shown shown = Run(words);
    EXPECT_EQ(shown.exit_code, kInterrupted) << words[0];
    EXPECT_THAT(shown.error,
                HasSubstr(absl::StrCat("muster: job ", job, " goes on: `muster watch ", job,
                                       " --coordinator ", address_, "` follows it, `muster cancel ",
                                       job, " --coordinator ", address_, "` ends it\n")));
  }
  EXPECT_TRUE(coordinator_.cancelled.empty());
  const Shown json = Run({"watch", "j1", "--output", "json"});
  EXPECT_THAT(json.error, HasSubstr("\"code\":\"INTERRUPTED\""));
  EXPECT_THAT(json.error, HasSubstr("\"exit_code\":130"));
}

TEST_F(CommandsTest, AWatchSaysWhatItsJobWaitsForAndWhatItsProgramPrintedLast) {
  const Shown shown = Run({"watch", "j1"});
  EXPECT_EQ(shown.exit_code, kJobFailed);
  EXPECT_THAT(shown.out, HasSubstr("PENDING    waiting to be placed\nwaits: evil"));
  EXPECT_THAT(shown.error, HasSubstr("muster: job j1 failed: evil"));
  EXPECT_THAT(shown.error, HasSubstr("\n  evil"));
}

TEST_F(CommandsTest, AStateIsAStateAndAnEventALineOfItsOwn) {
  const std::string shown = Run({"status", "j1"}).out;
  EXPECT_THAT(shown, HasSubstr("\nstate        JOB_STATE_UNSPECIFIED\nlast event   evil"));
  EXPECT_THAT(shown, HasSubstr("\nlast lines of the program that failed:\n  evil"));
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

// This holds for root, too, to whom the system would allow it: a device that a file was renamed
// over is gone for the whole machine.
TEST_F(CommandsTest, NoCommandReplacesWhatItDidNotMake) {
  const std::string folder = testing::TempDir() + "/replaces";
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const std::string text = testing::TempDir() + "/replaces.txt";
  std::ofstream(text) << "the text of the test, the text";
  const std::string job = testing::TempDir() + "/replaces.textproto";
  std::ofstream(job) << "name: \"none\"";
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  const bool device = mknod((folder + "/null").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  std::ofstream(folder + "/old") << "old";
  std::filesystem::create_symlink("old", folder + "/link");
  const std::vector<std::vector<std::string>> commands = {
      {"data", "tokenize", "--data", text, "--tokenizer", "bytes", "--out"},
      {"tokenizer", "train", "--data", text, "--vocabulary", "258", "--out"},
      {"compare", job, "--report"},
      {"bench", "store", "--json"}};
  for (const std::vector<std::string>& command : commands) {
    for (const char* name : {"pipe", "null", "old", "link"}) {
      if (name == std::string("null") && !device) continue;
      std::vector<std::string> words = command;
      words.push_back(absl::StrCat(folder, "/", name));
      const Shown shown = Run(words);
      EXPECT_EQ(shown.exit_code, kUsage) << command[0] << " " << name << ": " << shown.error;
      EXPECT_THAT(shown.error, HasSubstr(absl::StrCat(folder, "/", name, " is "))) << command[0];
    }
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder + "/pipe"));
  EXPECT_TRUE(!device || std::filesystem::is_character_file(folder + "/null"));
  std::string old;
  std::getline(std::ifstream(folder + "/old"), old);
  EXPECT_EQ(old, "old");
  const Shown forced = Run({"data", "tokenize", "--data", text, "--tokenizer", "bytes", "--force",
                            "--out", folder + "/link"});
  EXPECT_EQ(forced.exit_code, 0) << forced.error;
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link"));
  EXPECT_GT(std::filesystem::file_size(folder + "/old"), 100u);
}

TEST_F(CommandsTest, DataAreInspectedAndTokenized) {
  const std::string folder = testing::TempDir();
  const std::string pairs = folder + "/pairs.jsonl";
  std::ofstream(pairs) << "{\"prompt\": \"2+2=\", \"completion\": \"4\\u001b[2J\"}\n";
  const Shown shown = Run({"data", "inspect", pairs});
  EXPECT_EQ(shown.exit_code, kSuccess) << shown.error;
  EXPECT_EQ(shown.out, PrintableText(shown.out));
  EXPECT_THAT(shown.out, HasSubstr(pairs + ": JSON lines, "));
  EXPECT_THAT(shown.out, HasSubstr("\n--- " + pairs + ":1\n2+2=⟦4\\x1b[2J⟧\n"));
  EXPECT_THAT(shown.out, HasSubstr("--out pairs.tokens"));
  EXPECT_THAT(shown.out, HasSubstr(absl::StrCat("data {\n  sequences {\n    path: \"", pairs,
                                                "\"\n    tokenizer: \"TOKENIZER\"\n    packing: "
                                                "WHOLE_DOCUMENTS\n  }\n}\n")));
  const Shown job = Run({"init", "--data", pairs});
  EXPECT_EQ(job.exit_code, kSuccess) << job.error;
  EXPECT_THAT(job.out, HasSubstr("packing: WHOLE_DOCUMENTS"));
  EXPECT_THAT(Run({"data", "inspect", pairs, "--tokenizer", "bytes"}).out,
              HasSubstr("2|+|2|=⟦|4|"));
  const std::string text = folder + "/long.txt.gz";
  std::string words;
  while (words.size() < size_t{3} << 20) absl::StrAppend(&words, "word", words.size(), " ");
  std::ofstream(text, std::ios::binary) << Gzip(words);
  EXPECT_THAT(Run({"data", "inspect", text, "--tokenizer", "bytes"}).out,
              AllOf(HasSubstr(": compressed text, "), HasSubstr("1 document\n"),
                    HasSubstr(absl::StrCat(FormatCount(words.size()), " tokens"))));
  const std::string tokens = folder + "/pairs.tokens";
  const Shown made =
      Run({"data", "tokenize", "--data", pairs, "--tokenizer", "bytes", "--out", tokens});
  EXPECT_EQ(made.exit_code, kSuccess) << made.error;
  EXPECT_THAT(made.out, HasSubstr("9 tokens of 9 bytes"));
  EXPECT_THAT(made.out, HasSubstr("from 1 document; 5 of them are learned"));
  const Shown file = Run({"data", "inspect", tokens});
  EXPECT_EQ(file.exit_code, kSuccess) << file.error;
  EXPECT_THAT(file.out, HasSubstr("9 tokens, 55.6 % of them learned\n"
                                  "With packing WHOLE_DOCUMENTS padding is 99.2 % of sequences of "
                                  "1,024 tokens, 99.8 % of sequences of 4,096, "));
  EXPECT_THAT(file.out, HasSubstr("    path: \"" + tokens + "\"\n"));
  const Shown json = Run({"data", "inspect", tokens, "--output", "json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["learned_tokens"], "5");
  std::ofstream(pairs, std::ios::app) << "{\"prompt\": \"\", \"completion\": \"4\"}\n";
  const Shown refused = Run({"data", "inspect", pairs});
  EXPECT_EQ(refused.exit_code, kUsage);
  EXPECT_THAT(refused.error, HasSubstr(pairs + ":2: the prompt is empty"));
}

TEST_F(CommandsTest, AnImportReplacesNoFile) {
  const std::string folder = testing::TempDir() + "/imported";
  for (const char* name : {"job.textproto", "tokenizer.json"}) {
    ASSERT_TRUE(std::filesystem::create_directory(folder));
    std::ofstream(absl::StrCat(folder, "/", name)) << "mine";
    const Shown shown = Run({"import", "/no/such/model", "--out", folder});
    EXPECT_EQ(shown.exit_code, kUsage);
    EXPECT_THAT(shown.error, HasSubstr(absl::StrCat("/", name, " is there already")));
    std::filesystem::remove_all(folder);
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
