// The commands that show and follow jobs.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cluster/exit_code.h"
#include "client/commands/commands_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class JobCommandsTest : public CommandsTest {};

TEST_F(JobCommandsTest, AStatusNamesWhatRanksDivide) {
  EXPECT_THAT(Run({"status", "j1"}).out, Not(HasSubstr("zero stage")));
  coordinator_.spec.set_workers(4);
  coordinator_.spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  coordinator_.spec.mutable_parallelism()->mutable_zero()->set_stage(3);
  EXPECT_THAT(Run({"status", "j1"}).out, HasSubstr("parallelism  zero stage 3 over 4 ranks\n"));
}

TEST_F(JobCommandsTest, AHistoryIsASummaryEveryPointOrJson) {
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

TEST_F(JobCommandsTest, AHistoryIsWrittenForTensorBoard) {
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

TEST_F(JobCommandsTest, AHistoryFitsATerminalAndShowsRollBacks) {
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

TEST_F(JobCommandsTest, AListOfCheckpointsFitsATerminal) {
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

TEST_F(JobCommandsTest, AnEvaluationSaysWhatItWaitsForAndCtrlCCancelsIt) {
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

TEST_F(JobCommandsTest, CtrlCLeavesAWatchedJobAndSaysHowToFollowIt) {
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

TEST_F(JobCommandsTest, AWatchSaysWhatItsJobWaitsForAndWhatItsProgramPrintedLast) {
  const Shown shown = Run({"watch", "j1"});
  EXPECT_EQ(shown.exit_code, kJobFailed);
  EXPECT_THAT(shown.out, HasSubstr("PENDING    waiting to be placed\nwaits: evil"));
  EXPECT_THAT(shown.error, HasSubstr("muster: job j1 failed: evil"));
  EXPECT_THAT(shown.error, HasSubstr("\n  evil"));
}

TEST_F(JobCommandsTest, AStateIsAStateAndAnEventALineOfItsOwn) {
  const std::string shown = Run({"status", "j1"}).out;
  EXPECT_THAT(shown, HasSubstr("\nstate        JOB_STATE_UNSPECIFIED\nlast event   evil"));
  EXPECT_THAT(shown, HasSubstr("\nlast lines of the program that failed:\n  evil"));
}

}  // namespace
}  // namespace muster
