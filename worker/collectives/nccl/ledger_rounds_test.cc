#include "worker/collectives/nccl/ledger_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

LedgerEntry Call(size_t count) {
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.count = count;
  return EntryOf(call, 0, 2);
}

class LedgerRoundsTest : public ::testing::Test {
 protected:
  void Start(int size) {
    group_ = std::make_unique<InProcessGroup>(size);
    InParallel(size, [this](int rank) {
      auto host = MakeHostCommunicator(group_->Join(rank), {});
      ASSERT_TRUE(host.ok()) << host.status();
      rounds_[rank] =
          std::make_unique<LedgerRounds>(*std::move(host), "world", std::vector<std::string>());
    });
  }

  void InParallel(int size, const std::function<void(int)>& body) {
    rounds_.resize(size);
    std::vector<std::thread> ranks;
    for (int r = 0; r < size; ++r) ranks.emplace_back([&body, r] { body(r); });
    for (std::thread& rank : ranks) rank.join();
  }

  std::unique_ptr<InProcessGroup> group_;
  std::vector<std::unique_ptr<LedgerRounds>> rounds_;
};

TEST_F(LedgerRoundsTest, ManyCallsAreConfirmedOnAllRanks) {
  Start(3);
  InParallel(3, [this](int rank) {
    for (int i = 0; i < 200; ++i) {
      auto ticket = rounds_[rank]->Enter(Call(i));
      ASSERT_TRUE(ticket.ok()) << ticket.status();
      if (i % 7 == rank || i == 199) {
        const absl::Status status = rounds_[rank]->AwaitConfirmed(*ticket, absl::Seconds(30));
        ASSERT_TRUE(status.ok()) << status;
      }
    }
    rounds_[rank]->Leave(absl::Seconds(30));
    EXPECT_TRUE(rounds_[rank]->status().ok());
  });
}

TEST_F(LedgerRoundsTest, ACallThatDiffersFailsAllRanksAlike) {
  Start(3);
  InParallel(3, [this](int rank) {
    auto ticket = rounds_[rank]->Enter(Call(rank == 1 ? 8 : 9));
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    const absl::Status status = rounds_[rank]->AwaitConfirmed(*ticket, absl::Seconds(30));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 makes all_reduce f32 sum x 8"));
    EXPECT_EQ(rounds_[rank]->Enter(Call(1)).status(), status);
  });
}

TEST_F(LedgerRoundsTest, AProposalReachesRanksThatMakeNoCall) {
  Start(3);
  const absl::Status reason = absl::DeadlineExceededError("call 7 is late");
  InParallel(3, [&](int rank) {
    if (rank == 2) rounds_[rank]->Propose(reason);
    // A barrier for the failure: nothing of this ticket is ever confirmed.
    auto ticket = rounds_[rank]->Enter(Call(100 + rank));
    if (ticket.ok()) {
      EXPECT_FALSE(rounds_[rank]->AwaitConfirmed(*ticket, absl::Seconds(30)).ok());
    }
    EXPECT_FALSE(rounds_[rank]->status().ok());
  });
}

TEST_F(LedgerRoundsTest, AKilledRankIsNoticedWithoutACall) {
  Start(3);
  group_->Kill(1);
  InParallel(3, [this](int rank) {
    if (rank == 1) return;
    auto ticket = rounds_[rank]->Enter(Call(5));
    const absl::Status status =
        ticket.ok() ? rounds_[rank]->AwaitConfirmed(*ticket, absl::Seconds(30)) : ticket.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  });
}

TEST_F(LedgerRoundsTest, AForcedFailureKeepsItsCodeOnAllRanks) {
  Start(2);
  group_->Stop(1);
  const absl::Status late = absl::DeadlineExceededError("group 'world', call 3 is late");
  rounds_[0]->Fail(late);
  EXPECT_EQ(rounds_[0]->status(), late);
  group_->Continue(1);
  auto ticket = rounds_[1]->Enter(Call(5));
  const absl::Status status =
      ticket.ok() ? rounds_[1]->AwaitConfirmed(*ticket, absl::Seconds(30)) : ticket.status();
  EXPECT_EQ(status, late);
}

TEST_F(LedgerRoundsTest, SplitsTheHostGroupBetweenCalls) {
  Start(4);
  InParallel(4, [this](int rank) {
    ASSERT_TRUE(rounds_[rank]->Enter(Call(5)).ok());
    auto host = rounds_[rank]->Split(rank == 3 ? -1 : rank % 2, -rank, absl::Seconds(30));
    ASSERT_TRUE(host.ok()) << host.status();
    if (rank == 3) {
      EXPECT_EQ(*host, nullptr);
    } else if (rank == 1) {
      EXPECT_EQ((*host)->size(), 1);
    } else {
      EXPECT_EQ((*host)->size(), 2);
      EXPECT_EQ((*host)->rank(), rank == 2 ? 0 : 1);
    }
    EXPECT_TRUE(rounds_[rank]->Enter(Call(6)).ok());
    rounds_[rank]->Leave(absl::Seconds(30));
  });
}

TEST_F(LedgerRoundsTest, NothingBeginsOnceARankHasLeft) {
  Start(2);
  rounds_[0]->Leave(absl::Seconds(30));
  InParallel(2, [this](int rank) {
    if (rank == 0) return;
    auto ticket = rounds_[1]->Enter(Call(5));
    const absl::Status status =
        ticket.ok() ? rounds_[1]->AwaitConfirmed(*ticket, absl::Seconds(30)) : ticket.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 has left"));
  });
}

}  // namespace
}  // namespace muster
