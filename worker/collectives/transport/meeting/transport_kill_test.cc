// Tests ranks that are processes: what happens to the others when one is killed, stopped, or cut
// off.

#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/collectives/transport/meeting/rank_process_for_testing.h"

namespace muster {
namespace {

constexpr int kRanks = 3;

class TransportKillTest : public testing::TestWithParam<Wiring> {
 protected:
  void StartAll(const std::string& work) {
    ranks_ = StartRanks(GetParam(), kRanks);
    for (auto& rank : ranks_) rank->Tell(work);
    if (work == "EXCHANGE") {
      // In the middle of it.
      for (auto& rank : ranks_) AwaitProgress(*rank, 20);
    }
  }

  void AwaitProgress(RankProcess& rank, int64_t count) {
    while (!HasFailure() && Count(rank) < count) absl::SleepFor(absl::Milliseconds(1));
  }

  int64_t Count(RankProcess& rank) {
    rank.Tell("COUNT");
    return std::atoll(rank.Await("COUNT").c_str());
  }

  // All but `victim` end, and say who it was.
  void ExpectNamed(int victim) {
    const std::string name = absl::StrCat("rank ", victim, " (pid ", ranks_[victim]->pid(), ")");
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const std::string text = ranks_[rank]->Await("FAILED");
      EXPECT_TRUE(absl::StartsWith(text, "UNAVAILABLE")) << text;
      EXPECT_TRUE(absl::StrContains(text, name)) << text;
    }
  }

  std::vector<std::unique_ptr<RankProcess>> ranks_;
};

TEST_P(TransportKillTest, AKilledRankIsNamedByThoseWhoWaitForIt) {
  StartAll("EXCHANGE");
  ranks_[2]->Signal(SIGKILL);
  ExpectNamed(2);
}

TEST_P(TransportKillTest, AKilledRankIsNamedByThoseWhoCompute) {
  StartAll("COMPUTE");
  ranks_[0]->Signal(SIGKILL);
  ExpectNamed(0);
}

TEST_P(TransportKillTest, ADeathOverSharedMemoryTellsTheLastCall) {
  if (GetParam() != Wiring::kSharedMemory) GTEST_SKIP() << "known only where memory is shared";
  StartAll("EXCHANGE");
  ranks_[1]->Signal(SIGKILL);
  const std::string text = ranks_[0]->Await("FAILED");
  EXPECT_TRUE(absl::StrContains(text, "its last call was number ")) << text;
}

TEST_P(TransportKillTest, AStoppedRankIsSilentAndGoesOn) {
  StartAll("EXCHANGE");
  ranks_[1]->Signal(SIGSTOP);
  ranks_[0]->Tell("SURVEY");
  // Answers, silent, answers.
  EXPECT_EQ(ranks_[0]->Await("STATES"), "0 1 0");
  const int64_t count = Count(*ranks_[0]);
  ranks_[1]->Signal(SIGCONT);
  AwaitProgress(*ranks_[0], count + 50);
  ranks_[2]->Tell("SURVEY");
  EXPECT_EQ(ranks_[2]->Await("STATES"), "0 0 0");
}

TEST_P(TransportKillTest, ARankKilledWhileStoppedIsNamed) {
  StartAll("EXCHANGE");
  ranks_[1]->Signal(SIGSTOP);
  ranks_[1]->Signal(SIGKILL);
  ExpectNamed(1);
}

TEST_P(TransportKillTest, ARankThatIsCutOffIsNamed) {
  StartAll("EXCHANGE");
  ranks_[2]->Tell("RESET");
  ExpectNamed(2);
  const std::string text = ranks_[2]->Await("FAILED");
  EXPECT_TRUE(absl::StartsWith(text, "UNAVAILABLE rank ")) << text;
}

TEST_P(TransportKillTest, ARankThatLeavesInOrderIsNoDeath) {
  StartAll("COMPUTE");
  auto leaving = StartRanks(GetParam(), 2);
  leaving[1]->Tell("LEAVE");
  leaving[1]->Await("LEFT");
  leaving[0]->Tell("EXCHANGE");
  const std::string text = leaving[0]->Await("FAILED");
  EXPECT_TRUE(absl::StrContains(text, "has left the group")) << text;
  // Another group goes on.
  ranks_[0]->Tell("SURVEY");
  EXPECT_EQ(ranks_[0]->Await("STATES"), "0 0 0");
}

INSTANTIATE_TEST_SUITE_P(Wirings, TransportKillTest,
                         testing::Values(Wiring::kSharedMemory, Wiring::kTcp, Wiring::kTls,
                                         Wiring::kTcp3, Wiring::kTls2, Wiring::kMixed),
                         [](const auto& info) { return Name(info.param); });

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == muster::kRankArgument) {
    return muster::RunRankProcess(argv[2], argv[3]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
