#include "worker/collectives/nccl/call_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CollectiveCall AllReduce(size_t count, const char* label = "") {
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.count = count;
  call.label = label;
  return call;
}

CollectiveCall Message(Collective kind, int peer, size_t count) {
  CollectiveCall call;
  call.kind = kind;
  call.root = peer;
  call.count = count;
  return call;
}

// The ledgers of all ranks, exchanged as a host communicator would.
class Ledgers {
 public:
  explicit Ledgers(int size) : size_(size) {
    for (int r = 0; r < size; ++r) {
      ledgers_.emplace_back("world", r, size, std::vector<std::string>());
    }
  }

  CallLedger& operator[](int rank) { return ledgers_[rank]; }

  CallLedger::Ticket Enter(int rank, const CollectiveCall& call) {
    return ledgers_[rank].Enter(EntryOf(call, rank, size_));
  }

  // One round, in which `leaving` leaves and `failing` reports `error`. Every rank's verdict.
  std::vector<absl::Status> Round(int leaving = -1, int failing = -1,
                                  const absl::Status& error = absl::OkStatus()) {
    std::vector<LedgerRecord> records;
    for (int r = 0; r < size_; ++r) {
      records.push_back(ledgers_[r].NextRecord());
      records.back().leaving = r == leaving;
      if (r == failing) {
        records.back().code = static_cast<uint32_t>(error.code());
        const std::string text(error.message());
        text.copy(records.back().message, sizeof(records.back().message) - 1);
      }
    }
    std::vector<absl::Status> verdicts;
    for (CallLedger& ledger : ledgers_) verdicts.push_back(ledger.Judge(records));
    return verdicts;
  }

  // The verdict that all ranks share.
  absl::Status SameVerdict() {
    const std::vector<absl::Status> verdicts = Round();
    for (const absl::Status& verdict : verdicts) EXPECT_EQ(verdict, verdicts[0]);
    return verdicts[0];
  }

 private:
  const int size_;
  std::vector<CallLedger> ledgers_;
};

TEST(CallLedgerTest, ConfirmsACallOnceAllRanksHaveMadeIt) {
  Ledgers ledgers(3);
  const auto first = ledgers.Enter(0, AllReduce(10));
  const auto second = ledgers.Enter(1, AllReduce(10));
  ASSERT_TRUE(ledgers.SameVerdict().ok());
  EXPECT_FALSE(ledgers[0].Confirmed(first));
  EXPECT_TRUE(ledgers[0].HasUnconfirmed());
  EXPECT_FALSE(ledgers[2].HasUnconfirmed());

  ledgers.Enter(2, AllReduce(10));
  ASSERT_TRUE(ledgers.SameVerdict().ok());
  EXPECT_TRUE(ledgers[0].Confirmed(first));
  EXPECT_TRUE(ledgers[1].Confirmed(second));
  EXPECT_FALSE(ledgers[0].HasUnconfirmed());
}

TEST(CallLedgerTest, TellsMoreCallsThanFitIntoARecord) {
  Ledgers ledgers(2);
  CallLedger::Ticket last;
  for (int i = 0; i < 20; ++i) last = ledgers.Enter(0, AllReduce(i));
  for (int i = 0; i < 20; ++i) ledgers.Enter(1, AllReduce(i));
  ASSERT_TRUE(ledgers.SameVerdict().ok());
  ASSERT_TRUE(ledgers.SameVerdict().ok());
  EXPECT_FALSE(ledgers[0].Confirmed(last));
  ASSERT_TRUE(ledgers.SameVerdict().ok());
  EXPECT_TRUE(ledgers[0].Confirmed(last));
}

TEST(CallLedgerTest, NamesTheRankThatMakesAnotherCall) {
  const auto change = [](auto set) {
    Ledgers ledgers(3);
    for (int r = 0; r < 3; ++r) {
      CollectiveCall call = AllReduce(1024, "bucket 3");
      if (r == 2) set(call);
      ledgers.Enter(r, call);
    }
    return ledgers.SameVerdict();
  };
  const absl::Status count = change([](CollectiveCall& call) { call.count = 512; });
  EXPECT_EQ(count.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(count.message()),
              AllOf(HasSubstr("group 'world', call 1"),
                    HasSubstr("rank 0 makes all_reduce f32 sum x 1024 'bucket 3'"),
                    HasSubstr("rank 2 makes all_reduce f32 sum x 512")));
  EXPECT_THAT(std::string(change([](CollectiveCall& call) { call.dtype = DType::kF64; }).message()),
              HasSubstr("rank 2 makes all_reduce f64"));
  EXPECT_THAT(
      std::string(change([](CollectiveCall& call) { call.reduction = Reduction::kMax; }).message()),
      HasSubstr("rank 2 makes all_reduce f32 max"));
  EXPECT_THAT(
      std::string(change([](CollectiveCall& call) { call.kind = Collective::kBarrier; }).message()),
      HasSubstr("rank 2 makes barrier"));
  EXPECT_TRUE(change([](CollectiveCall& call) { call.label = "other"; }).ok());
}

TEST(CallLedgerTest, ComparesRootsAndCounts) {
  const std::vector<size_t> one = {1, 2};
  const std::vector<size_t> other = {2, 1};
  Ledgers gather(2);
  for (int r = 0; r < 2; ++r) {
    CollectiveCall call;
    call.kind = Collective::kAllGather;
    call.counts = r == 0 ? one : other;
    gather.Enter(r, call);
  }
  EXPECT_EQ(gather.SameVerdict().code(), absl::StatusCode::kFailedPrecondition);

  Ledgers broadcast(2);
  for (int r = 0; r < 2; ++r) broadcast.Enter(r, Message(Collective::kBroadcast, r, 5));
  EXPECT_THAT(std::string(broadcast.SameVerdict().message()), HasSubstr("root 1"));
}

TEST(CallLedgerTest, EqualCountsAreTheSameCallWrittenOutOrNot) {
  const std::vector<size_t> counts = {4, 4};
  Ledgers ledgers(2);
  for (int r = 0; r < 2; ++r) {
    CollectiveCall call;
    call.kind = Collective::kReduceScatter;
    if (r == 0) {
      call.counts = counts;
    } else {
      call.count = 4;
    }
    ledgers.Enter(r, call);
  }
  EXPECT_TRUE(ledgers.SameVerdict().ok());
}

TEST(CallLedgerTest, AnAllToAllMustSendWhatOthersExpect) {
  // counts[i][j]: from i to j.
  const std::vector<std::vector<size_t>> sent = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  std::vector<std::vector<size_t>> expected = {{1, 4, 7}, {2, 5, 8}, {3, 6, 9}};
  const auto verdict = [&] {
    Ledgers ledgers(3);
    for (int r = 0; r < 3; ++r) {
      CollectiveCall call;
      call.kind = Collective::kAllToAll;
      call.send_counts = sent[r];
      call.counts = expected[r];
      ledgers.Enter(r, call);
    }
    return ledgers.SameVerdict();
  };
  EXPECT_TRUE(verdict().ok());
  std::swap(expected[1][0], expected[1][2]);
  const absl::Status wrong = verdict();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("not what others expect"));
}

TEST(CallLedgerTest, MessagesAreMatchedByPairAndNotWithOtherCalls) {
  Ledgers ledgers(3);
  const auto send = ledgers.Enter(0, Message(Collective::kSend, 2, 7));
  const auto reduce = ledgers.Enter(0, AllReduce(1));
  ledgers.Enter(1, AllReduce(1));
  ledgers.Enter(2, AllReduce(1));
  ASSERT_TRUE(ledgers.SameVerdict().ok());
  EXPECT_TRUE(ledgers[0].Confirmed(reduce));
  EXPECT_FALSE(ledgers[0].Confirmed(send));
  const auto receive = ledgers.Enter(2, Message(Collective::kReceive, 0, 7));
  ASSERT_TRUE(ledgers.SameVerdict().ok());
  EXPECT_TRUE(ledgers[0].Confirmed(send));
  EXPECT_TRUE(ledgers[2].Confirmed(receive));

  ledgers.Enter(0, Message(Collective::kSend, 2, 7));
  ledgers.Enter(2, Message(Collective::kReceive, 0, 8));
  const absl::Status wrong = ledgers.SameVerdict();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("transfer 2 from rank 0 to rank 2"));
}

TEST(CallLedgerTest, OneRanksErrorIsEveryRanksError) {
  Ledgers ledgers(3);
  const absl::Status late = absl::DeadlineExceededError("call 4 was not done in time");
  for (const absl::Status& verdict : ledgers.Round(-1, 1, late)) EXPECT_EQ(verdict, late);
}

TEST(CallLedgerTest, ARankThatLeftFailsOnlyThoseThatStillCall) {
  Ledgers ledgers(3);
  ledgers.Enter(2, AllReduce(5));
  const auto verdicts = ledgers.Round(0);
  EXPECT_TRUE(verdicts[0].ok());
  EXPECT_TRUE(verdicts[1].ok());
  EXPECT_EQ(verdicts[2].code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(verdicts[2].message()), HasSubstr("rank 0 has left the group 'world'"));
  EXPECT_TRUE(ledgers[1].closed());
}

TEST(CallLedgerTest, SaysWhoIsWhere) {
  Ledgers ledgers(7);
  for (int r = 0; r < 7; ++r) {
    if (r != 1) ledgers.Enter(r, AllReduce(5, "bucket 1"));
  }
  ASSERT_TRUE(ledgers.SameVerdict().ok());
  EXPECT_EQ(ledgers[1].Describe(),
            "rank 1: no call; rank 0, rank 2, rank 3, rank 4 and 2 more: 1 calls, last all_reduce "
            "f32 sum x 5 'bucket 1'");
}

TEST(CallLedgerTest, UsesTheRanksNames) {
  CallLedger ledger("world", 0, 2, {"slot 4", "slot 7"});
  EXPECT_EQ(ledger.NameOf(1), "slot 7");
}

}  // namespace
}  // namespace muster
