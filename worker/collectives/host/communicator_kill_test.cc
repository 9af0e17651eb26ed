// Tests ranks that are processes: how the others' calls end when one is killed, stopped or cut off,
// on every transport.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/endpoint.h"
#include "worker/collectives/transport/meeting/group_for_testing.h"
#include "worker/collectives/transport/meeting/rank_process_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Matcher;
using ::testing::StartsWith;

constexpr int kRanks = 3;
constexpr int kVictim = 1;

void Say(const std::string& line) {
  const std::string text = line + "\n";
  (void)!write(kRankSocket, text.data(), text.size());
}

// Calls all-reduce until that fails, or `calls` have been made.
void CallAllReduce(Communicator& communicator, size_t count, int calls, absl::Duration timeout,
                   std::atomic<int>& made) {
  std::vector<float> values(count);
  absl::Status status;
  for (int i = 0; i < calls && status.ok(); ++i) {
    status = communicator.Run({.kind = Collective::kAllReduce,
                               .in = values.data(),
                               .out = values.data(),
                               .count = count,
                               .timeout = timeout,
                               .label = "gradients"});
    if (status.ok()) ++made;
  }
  if (!status.ok()) {
    Say(absl::StrCat("FAILED ", absl::StatusCodeToString(status.code()), " ", status.message()));
  }
}

void AwaitInside(const FlightRecorder& recorder, uint64_t sequence) {
  while (true) {
    const std::vector<RecordedCall> calls = recorder.Calls();
    if (!calls.empty() && calls.back().sequence >= sequence) return;
    std::this_thread::yield();
  }
}

// As RankProcess says, with these for the work:
//   to: CALL elements calls milliseconds    so many all-reduces, or till one fails
//   to: COUNT                               it: COUNT calls that ended well so far
//   to: AWAIT sequence                      it: INSIDE once it has entered that call
//   to: RESET                               breaks all its connections
int RunRank(const std::string& wiring, const std::string& rank) {
  auto endpoint = MakeHostEndpoint(OptionsFor(static_cast<Wiring>(std::atoi(wiring.c_str())),
                                              std::atoi(rank.c_str())))
                      .value();
  Say("ADDRESS " + absl::BytesToHexString(endpoint->address()));
  std::unique_ptr<Communicator> communicator;
  std::thread worker;
  std::atomic<int> made = 0;
  std::string input;
  char buffer[4096];
  while (true) {
    const ssize_t bytes = read(kRankSocket, buffer, sizeof(buffer));
    // As a crash: no destructor runs.
    if (bytes <= 0) _exit(0);
    input.append(buffer, bytes);
    for (size_t end; (end = input.find('\n')) != std::string::npos; input.erase(0, end + 1)) {
      std::istringstream line(input.substr(0, end));
      std::string word;
      line >> word;
      if (word == "GROUP") {
        CollectiveEndpoint::Group group;
        group.name = "world";
        group.round = 1;
        group.secret = "secret";
        line >> group.rank;
        for (std::string hex; line >> hex;) group.addresses.push_back(absl::HexStringToBytes(hex));
        communicator = endpoint->Connect(group, absl::Seconds(30)).value();
        Say("MET");
      } else if (word == "CALL") {
        size_t count;
        int calls, milliseconds;
        line >> count >> calls >> milliseconds;
        if (worker.joinable()) worker.join();
        worker = std::thread([&, count, calls, milliseconds] {
          CallAllReduce(*communicator, count, calls, absl::Milliseconds(milliseconds), made);
        });
      } else if (word == "COUNT") {
        Say(absl::StrCat("COUNT ", made.load()));
      } else if (word == "AWAIT") {
        uint64_t sequence;
        line >> sequence;
        AwaitInside(communicator->recorder(), sequence);
        Say("INSIDE");
      } else if (word == "RESET") {
        BreakConnections();
      }
    }
  }
}

class CommunicatorKillTest : public testing::TestWithParam<std::tuple<Wiring, size_t>> {
 protected:
  CommunicatorKillTest() : ranks_(StartRanks(std::get<0>(GetParam()), kRanks)) {}

  // Elements of each all-reduce.
  static size_t count() { return std::get<1>(GetParam()); }
  static std::string Call() { return absl::StrCat("all_reduce f32 sum x ", count(), " (\"grad"); }

  void Tell(int rank, int calls, int milliseconds = 600'000) {
    ranks_[rank]->Tell(absl::StrCat("CALL ", count(), " ", calls, " ", milliseconds));
  }
  void TellAll(int calls) {
    for (int rank = 0; rank < kRanks; ++rank) Tell(rank, calls);
  }

  void AwaitCalls(int rank, int calls) {
    int made = 0;
    while (!HasFailure() && made < calls) {
      ranks_[rank]->Tell("COUNT");
      made = std::atoi(ranks_[rank]->Await("COUNT").c_str());
    }
  }

  void ExpectOthersFail(const Matcher<std::string>& text) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kVictim) continue;
      EXPECT_THAT(ranks_[rank]->Await("FAILED"), text);
    }
  }

  std::vector<std::unique_ptr<RankProcess>> ranks_;
};

TEST_P(CommunicatorKillTest, ARankKilledInACall) {
  TellAll(1'000'000);
  for (int rank = 0; rank < kRanks; ++rank) AwaitCalls(rank, 3);
  ranks_[kVictim]->Signal(SIGKILL);
  ExpectOthersFail(AllOf(StartsWith("UNAVAILABLE world: rank 1 has died or is out of reach"),
                         HasSubstr(Call())));
}

TEST_P(CommunicatorKillTest, ARankKilledBetweenCalls) {
  TellAll(3);
  for (int rank = 0; rank < kRanks; ++rank) AwaitCalls(rank, 3);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != kVictim) Tell(rank, 1);
  }
  ranks_[kVictim]->Signal(SIGKILL);
  ExpectOthersFail(StartsWith(absl::StrCat(
      "UNAVAILABLE world: rank 1 has died or is out of reach (its last was call 3, ", Call())));
}

TEST_P(CommunicatorKillTest, AStoppedRankIsNamedAtTheDeadline) {
  TellAll(3);
  for (int rank = 0; rank < kRanks; ++rank) AwaitCalls(rank, 3);
  ranks_[kVictim]->Signal(SIGSTOP);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != kVictim) Tell(rank, 1, 500);
  }
  ExpectOthersFail(
      AllOf(StartsWith(absl::StrCat("DEADLINE_EXCEEDED world: ", Call())),
            HasSubstr("call 4, did not end within its timeout of 500ms: rank 1 does not answer, "
                      "stopped or out of reach (its last was call 3, ")));
  ranks_[kVictim]->Signal(SIGCONT);
  // The others' part of the fourth call may have reached it before their error.
  Tell(kVictim, 2);
  EXPECT_THAT(ranks_[kVictim]->Await("FAILED"),
              AllOf(StartsWith("DEADLINE_EXCEEDED world: "), HasSubstr("rank 1 does not answer")));
}

TEST_P(CommunicatorKillTest, ARankStoppedInACallIsNamedAtTheDeadline) {
  TellAll(3);
  for (int rank = 0; rank < kRanks; ++rank) AwaitCalls(rank, 3);
  // Alone, it gives as much as there is room for, but cannot end the call.
  Tell(kVictim, 3);
  ranks_[kVictim]->Tell("AWAIT 4");
  ranks_[kVictim]->Await("INSIDE");
  ranks_[kVictim]->Signal(SIGSTOP);
  // If all of its part was there, the others end the fourth call, and not the fifth.
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != kVictim) Tell(rank, 2, 500);
  }
  // Only ranks that share its memory can tell that it is in the fourth call.
  ExpectOthersFail(
      AllOf(StartsWith(absl::StrCat("DEADLINE_EXCEEDED world: ", Call())),
            ContainsRegex("call [45], did not end within its timeout of 500ms: "),
            ContainsRegex("rank 1 does not answer, stopped or out of reach \\((it is in call 4|its "
                          "last was call [34]), ")));
  ranks_[kVictim]->Signal(SIGCONT);
  // The others' parts of two calls may have reached it, never that of a third.
  EXPECT_THAT(ranks_[kVictim]->Await("FAILED"),
              AllOf(StartsWith("DEADLINE_EXCEEDED world: "), HasSubstr("rank 1 does not answer")));
}

TEST_P(CommunicatorKillTest, ARankThatIsLateIsNamedAtTheDeadline) {
  TellAll(3);
  for (int rank = 0; rank < kRanks; ++rank) AwaitCalls(rank, 3);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != kVictim) Tell(rank, 1, 500);
  }
  ExpectOthersFail(AllOf(StartsWith(absl::StrCat("DEADLINE_EXCEEDED world: ", Call())),
                         HasSubstr("rank 1 has not entered it (its last was call 3, ")));
  // As above.
  Tell(kVictim, 2);
  EXPECT_THAT(ranks_[kVictim]->Await("FAILED"), AllOf(StartsWith("DEADLINE_EXCEEDED world: "),
                                                      HasSubstr("rank 1 has not entered it")));
}

TEST_P(CommunicatorKillTest, ARankThatIsCutOffEndsAll) {
  TellAll(1'000'000);
  for (int rank = 0; rank < kRanks; ++rank) AwaitCalls(rank, 3);
  ranks_[kVictim]->Tell("RESET");
  ExpectOthersFail(StartsWith("UNAVAILABLE world: rank 1 "));
  EXPECT_THAT(ranks_[kVictim]->Await("FAILED"), StartsWith("UNAVAILABLE world: "));
}

using KillParameters = std::tuple<Wiring, size_t>;

std::string NameOfKill(const testing::TestParamInfo<KillParameters>& info) {
  return absl::StrCat(Name(std::get<0>(info.param)), "x", std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Wirings, CommunicatorKillTest,
                         testing::Values(KillParameters{Wiring::kSharedMemory, 1'000'000},
                                         KillParameters{Wiring::kTcp, 1000},
                                         KillParameters{Wiring::kTls, 1'000'000},
                                         KillParameters{Wiring::kMixed, 1000}),
                         NameOfKill);
INSTANTIATE_TEST_SUITE_P(ExhaustiveWirings, CommunicatorKillTest,
                         testing::Values(KillParameters{Wiring::kSharedMemory, 1000},
                                         KillParameters{Wiring::kTcp, 1'000'000},
                                         KillParameters{Wiring::kTls, 1000},
                                         KillParameters{Wiring::kMixed, 1'000'000}),
                         NameOfKill);

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == muster::kRankArgument) {
    return muster::RunRank(argv[2], argv[3]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
