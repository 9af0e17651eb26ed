// `muster chaos`, in short, and the checks it rests on: a contribution too many, and a server that
// has forgotten what it acknowledged, must show.

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "client/chaos/faults/process_tree.h"
#include "client/chaos/integer_pusher.h"
#include "client/chaos/integer_pushers.h"
#include "client/chaos/standalone_server.h"
#include "client/cluster/spawn.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/recovery/process_state_for_testing.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string Program(const std::string& path) { return std::filesystem::absolute(path).string(); }

std::string EmptyFolder(const std::string& name) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/checkpoints");
  return folder;
}

// What `muster chaos` prints with --output json: a line per round and one for all. Expects that no
// round failed.
std::vector<nlohmann::json> RunChaos(const std::string& arguments) {
  const std::string command =
      absl::StrCat("HOME=", ::testing::TempDir(), " ", Program("client/muster"), " chaos ",
                   arguments, " --output json 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) ADD_FAILURE() << "cannot run " << command;
  std::string output;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, n);
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 0) << output;
  std::vector<nlohmann::json> lines;
  for (const absl::string_view line : absl::StrSplit(output, '\n', absl::SkipEmpty())) {
    lines.push_back(nlohmann::json::parse(line, nullptr, false));
    EXPECT_TRUE(lines.back().is_object()) << output;
  }
  return lines;
}

TEST(ChaosTest, NothingIsLostToKillsAndDamage) {
  const std::vector<nlohmann::json> lines = RunChaos(
      "--rounds 5 --seed 5 "
      "--kinds killed-server,damaged-file,killed-cluster,lost-volume,damaged-checkpoint");
  ASSERT_EQ(lines.size(), 6u);
  const nlohmann::json& summary = lines.back();
  EXPECT_EQ(summary["rounds"], 5);
  EXPECT_EQ(summary["failed"], 0);
  EXPECT_GT(summary["kills"], 6);
  EXPECT_EQ(summary["damages"], 2);
  EXPECT_EQ(summary["lost_volumes"], 1);
  EXPECT_EQ(summary["kinds"].size(), 5u);
}

TEST(ChaosTest, NothingIsLostWhenWorkersComeAndGo) {
  const std::vector<nlohmann::json> lines =
      RunChaos("--rounds 4 --seed 55 --kills 6 --kinds coming-workers");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines.back()["failed"], 0);
  EXPECT_GT(lines.back()["kills"], 12);
}

// Runs a round of each of three kinds, with so many faults.
void ExpectNothingLostWhenLinksGoWrong(int faults) {
  const std::vector<nlohmann::json> lines = RunChaos(absl::StrCat(
      "--rounds 3 --seed 7 --kinds cut-link,half-open-link,links-and-kills", " --faults ", faults));
  ASSERT_EQ(lines.size(), 4u);
  const nlohmann::json& summary = lines.back();
  EXPECT_EQ(summary["rounds"], 3);
  EXPECT_EQ(summary["failed"], 0);
  EXPECT_GE(summary["link_faults"], 3);
  EXPECT_GT(summary["checkpoints"], 50);
  for (const nlohmann::json& kind : summary["kinds"]) EXPECT_EQ(kind["recovered"], 1) << kind;
}

TEST(ChaosTest, NothingIsLostWhenLinksGoWrong) { ExpectNothingLostWhenLinksGoWrong(1); }
TEST(ChaosTest, NothingIsLostWhenLinksGoWrongTwiceExhaustive) {
  ExpectNothingLostWhenLinksGoWrong(2);
}

TEST(ChaosTest, CommittedCheckpointsAreNotWrittenAgain) {
  const std::vector<nlohmann::json> lines =
      RunChaos("--rounds 2 --seed 1 --kinds cut-link-rewrites-checkpoints,f16-rewrites-checkpoint");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines.back()["failed"], 0);
  EXPECT_EQ(lines.back()["kills"], 9);
}

void ExpectNothingLostWhenAWorkerStandsStill(size_t rounds) {
  const std::vector<nlohmann::json> lines =
      RunChaos(absl::StrCat("--seed 2 --faults 1 --kinds frozen-worker --rounds ", rounds));
  ASSERT_EQ(lines.size(), rounds + 1);
  EXPECT_EQ(lines.back()["failed"], 0);
  EXPECT_EQ(lines.back()["freezes"], rounds);
}

TEST(ChaosTest, NothingIsLostWhenAWorkerStandsStill) { ExpectNothingLostWhenAWorkerStandsStill(1); }
TEST(ChaosTest, NothingIsLostWhenWorkersStandStillExhaustive) {
  ExpectNothingLostWhenAWorkerStandsStill(2);
}

TEST(ChaosTest, NothingIsLostWhenAJobLeavesASlowWorker) {
  const std::vector<nlohmann::json> lines = RunChaos("--seed 3 --kinds slow-workers --rounds 2");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines.back()["failed"], 0);
  EXPECT_EQ(lines.back()["slowed"], 2);
}

// Returns the descendants of a process.
std::vector<pid_t> Descendants(pid_t process) {
  std::map<pid_t, std::vector<pid_t>> tree = ProcessTree();
  std::vector<pid_t> all = tree[process];
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<pid_t> children = tree[all[i]];
    all.insert(all.end(), children.begin(), children.end());
  }
  return all;
}

TEST(ChaosTest, NoProcessIsLeftStoppedWhenChaosIsKilled) {
  const std::string folder = EmptyFolder("killed-chaos");
  const auto chaos =
      Spawn({.command = {Program("client/muster"), "chaos", "--kinds", "frozen-worker", "--rounds",
                         "1000", "--folder", folder + "/run"},
             .output_file = folder + "/output"});
  ASSERT_TRUE(chaos.ok()) << chaos.status();
  std::vector<pid_t> processes;
  // A worker and its task.
  for (int stopped = 0; stopped < 2; absl::SleepFor(absl::Milliseconds(1))) {
    ASSERT_NE(StateOf(*chaos), 'X');
    processes = Descendants(*chaos);
    stopped = 0;
    for (const pid_t pid : processes) stopped += StateOf(pid) == 'T';
  }
  kill(*chaos, SIGKILL);
  waitpid(*chaos, nullptr, 0);
  // The test's own time limit ends the wait.
  for (const pid_t pid : processes) {
    while (StateOf(pid) != 'X') absl::SleepFor(absl::Milliseconds(10));
  }
}

class PushersTest : public ::testing::Test {
 protected:
  PushersTest()
      : folder_(EmptyFolder("pushers")), server_(Program("server/muster-server"), folder_) {
    tables_.checkpoint_root = folder_ + "/checkpoints";
    tables_.cut_every = 5;
    tables_.patience = absl::Seconds(10);
  }
  void SetUp() override {
    ASSERT_TRUE(server_.Start().ok());
    auto pushers = IntegerPushers::Create(server_, tables_);
    ASSERT_TRUE(pushers.ok()) << pushers.status();
    pushers_ = *std::move(pushers);
    pushers_->Begin(12);
    ASSERT_TRUE(pushers_->Await().ok());
    ASSERT_TRUE(pushers_->CheckSums().ok());
  }

  const std::string folder_;
  StandaloneServer server_;
  IntegerTables tables_;
  std::unique_ptr<IntegerPushers> pushers_;
};

TEST_F(PushersTest, RepeatsCountOnceAndOneTooManyShows) {
  const auto layout = tables_.Layout();
  ASSERT_TRUE(layout.ok());
  IntegerPusher again(server_, tables_, *layout, 2);
  // All of it a repeat of what slot 2 has pushed.
  const absl::Status repeated = again.Push(12);
  ASSERT_TRUE(repeated.ok()) << repeated;
  const absl::Status sums = pushers_->CheckSums();
  EXPECT_TRUE(sums.ok()) << sums;

  ASSERT_TRUE(again.Push(13).ok());
  const absl::Status wrong = pushers_->CheckSums();
  EXPECT_TRUE(absl::IsDataLoss(wrong)) << wrong;
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("are wrong in total"));
}

TEST_F(PushersTest, AServerWithoutItsLogShows) {
  server_.Kill();
  std::filesystem::remove_all(server_.data());
  ASSERT_TRUE(server_.Start().ok());
  pushers_->Rewind();
  pushers_->Begin(13);
  const absl::Status status = pushers_->Await();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("chaos"));
}

}  // namespace
}  // namespace muster
