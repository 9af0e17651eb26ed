// Tests a rank that is late, leaves, dies or gives up: all ranks end with one error that names the
// rank and the call, and stay failed.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/failing_group_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

constexpr absl::Duration kShort = absl::Milliseconds(300);

class CommunicatorFailureTest : public FailingGroupTest {};

// Waits until the rank is in a call of its own.
void AwaitInside(const Communicator& rank, uint64_t sequence) {
  while (true) {
    for (const RecordedCall& call : rank.recorder().Calls()) {
      if (call.sequence == sequence) return;
    }
    std::this_thread::yield();
  }
}

TEST_P(CommunicatorFailureTest, ARankThatIsLateButInTimeIsWaitedFor) {
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    if (rank.rank() == kCulprit) AwaitInside(*group().ranks[0], 3);
    return rank.Run(caller.AllReduce(1000));
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST_P(CommunicatorFailureTest, AMissingCallEndsAtTheDeadline) {
  for (const size_t count : {1000, 100'000}) {
    group_ = backend().make(size());
    std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
      if (rank.rank() == kCulprit) return absl::OkStatus();
      CollectiveCall call = caller.AllReduce(count, "bucket 3");
      call.timeout = kShort;
      return rank.Run(call);
    });
    // It learns of it in its next call.
    Caller caller;
    statuses[kCulprit] = group().ranks[kCulprit]->Run(caller.AllReduce(1));
    ExpectFailed(
        statuses, absl::StatusCode::kDeadlineExceeded,
        AllOf(HasSubstr(
                  absl::StrCat("all_reduce f32 sum x ", count,
                               " (\"bucket 3\"), call 3, did not end within its timeout of 300ms")),
              HasSubstr("rank 1 has not entered it (its last was call 2, all_reduce f32 sum x "
                        "50000)"),
              HasSubstr("in it")));
  }
}

TEST_P(CommunicatorFailureTest, AbortFromAnotherThread) {
  for (const size_t count : {1000, 100'000}) {
    group_ = backend().make(size());
    std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
      if (rank.rank() != kCulprit) return rank.Run(caller.AllReduce(count));
      AwaitInside(*group().ranks[0], 3);
      std::thread([&] { rank.Abort("the job was cancelled"); }).join();
      return rank.Run(caller.AllReduce(count));
    });
    ExpectFailed(statuses, absl::StatusCode::kAborted,
                 HasSubstr("aborted by rank 1: the job was cancelled"));
  }
}

TEST_P(CommunicatorFailureTest, AHandleAbortsTheGroup) {
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    const std::shared_ptr<Work> work = rank.Start(caller.AllReduce(100'000));
    if (rank.rank() == kCulprit) work->Abort(absl::CancelledError("no longer wanted"));
    const absl::Status status = work->Wait(kLong);
    // It may have ended before.
    return status.ok() ? rank.Run(caller.AllReduce(5)) : status;
  });
  for (const absl::Status& status : statuses) {
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: no longer wanted"));
    }
  }
}

TEST_P(CommunicatorFailureTest, ARankThatLeaves) {
  for (const size_t count : {1000, 100'000}) {
    group_ = backend().make(size());
    const absl::Time start = absl::Now();
    std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
      if (rank.rank() != kCulprit) return rank.Run(caller.AllReduce(count));
      AwaitInside(*group().ranks[0], 3);
      group().ranks[kCulprit].reset();
      return absl::OkStatus();
    });
    EXPECT_LT(absl::Now() - start, kLong);
    statuses.erase(statuses.begin() + kCulprit);
    ExpectSame(statuses, absl::StatusCode::kUnavailable,
               HasSubstr("rank 1 has left (its last was call 2, all_reduce f32 sum x 50000)"));
  }
}

TEST_P(CommunicatorFailureTest, LeavingInOrderDisturbsNobody) {
  // Ranks leave as soon as they are done, while others still read what was sent to them.
  for (int round = 0; round < 20; ++round) {
    group_ = backend().make(size());
    std::vector<absl::Status> statuses(size());
    group().Run([&](Communicator& rank) {
      Caller caller;
      const int index = rank.rank();
      statuses[index] = rank.Run(caller.AllReduce(round % 2 == 0 ? 1000 : 100'000));
      group().ranks[index].reset();
    });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_P(CommunicatorFailureTest, AReceiveFromAnyRankDoesWithoutThoseThatHaveLeft) {
  absl::Mutex mutex;
  int left = 0;
  int source = -1;
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    const int index = rank.rank();
    CollectiveCall call = {
        .in = caller.values.data(), .out = caller.result.data(), .count = 3, .timeout = kLong};
    if (index == 0) {
      call.kind = Collective::kReceive;
      call.root = kAnyRank;
      call.source = &source;
      return rank.Run(call);
    }
    if (index == 1) {
      const auto all_left = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
        return left == static_cast<int>(group().ranks.size()) - 2;
      };
      mutex.LockWhen(absl::Condition(&all_left));
      mutex.Unlock();
      call.kind = Collective::kSend;
      return rank.Run(call);
    }
    group().ranks[index].reset();
    absl::MutexLock lock(&mutex);
    ++left;
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(source, 1);
}

TEST_P(CommunicatorFailureTest, LeavingWithCallsUnderWayAborts) {
  absl::Notification left;
  std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    if (rank.rank() != kCulprit) {
      const absl::Status status = rank.Run(caller.AllReduce(1000));
      // Before, the next call would not be the one that the culprit makes.
      left.WaitForNotification();
      return status.ok() ? rank.Run(caller.AllReduce(1001)) : status;
    }
    // The second one waits for what no other rank calls.
    rank.Start(caller.AllReduce(1000));
    const std::shared_ptr<Work> work = rank.Start({.kind = Collective::kReceive,
                                                   .out = caller.result.data(),
                                                   .count = 1,
                                                   .root = 0,
                                                   .timeout = kLong});
    group().ranks[kCulprit].reset();
    left.Notify();
    return work->Wait(kLong);
  });
  ExpectSame(statuses, absl::StatusCode::kAborted,
             HasSubstr("rank 1: it left the group while calls were under way"));
}

TEST_P(CommunicatorFailureTest, AKilledRankIsNamedWithinASecond) {
  if (!backend().can_break) GTEST_SKIP() << "ranks of this backend are killed as processes";
  for (const bool inside : {false, true}) {
    group_ = backend().make(size());
    absl::Time killed;
    std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
      if (rank.rank() != kCulprit) return rank.Run(caller.AllReduce(100'000, "bucket 3"));
      AwaitInside(*group().ranks[0], 3);
      std::thread killer([&] {
        if (inside) AwaitInside(rank, 3);
        killed = absl::Now();
        group().Kill(kCulprit);
      });
      // It makes another call, in which no other rank is.
      const absl::Status status = inside ? rank.Run({.kind = Collective::kReceive,
                                                     .out = caller.result.data(),
                                                     .count = 1,
                                                     .root = 0,
                                                     .timeout = kLong,
                                                     .label = "gradient"})
                                         : absl::OkStatus();
      killer.join();
      return status;
    });
    EXPECT_LT(absl::Now() - killed, absl::Seconds(1));
    statuses.erase(statuses.begin() + kCulprit);
    // Its message may have met the header of the others' call first.
    ExpectSame(
        statuses, inside ? statuses[0].code() : absl::StatusCode::kUnavailable,
        inside
            ? Matcher<std::string>(HasSubstr("rank 1"))
            : HasSubstr(
                  "rank 1 has died or is out of reach (its last was call 2, all_reduce f32 sum x "
                  "50000)"));
  }
}

TEST_P(CommunicatorFailureTest, AStoppedRankIsNamedAtTheDeadline) {
  if (!backend().can_break) GTEST_SKIP() << "ranks of this backend are stopped as processes";
  std::atomic<int> ended{0};
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    CollectiveCall call = caller.AllReduce(100'000, "bucket 3");
    call.timeout = kShort;
    if (rank.rank() == kCulprit) {
      group().Stop(kCulprit);
      // Only the others' deadline counts.
      call.timeout = kLong;
      return rank.Run(call);
    }
    const absl::Status status = rank.Run(call);
    if (++ended == size() - 1) group().Continue(kCulprit);
    return status;
  });
  ExpectFailed(statuses, absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("all_reduce f32 sum x 100000 (\"bucket 3\"), call 3, did not end"),
                     HasSubstr("rank 1 does not answer, stopped or out of reach (it is in call 3, "
                               "all_reduce f32 sum x 100000 (\"bucket 3\") as far as known)")));
}

TEST_P(CommunicatorFailureTest, AMessageThatDoesNotCome) {
  std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    if (rank.rank() == kCulprit) return absl::OkStatus();
    if (rank.rank() > 0) return rank.Run(caller.AllReduce(7));
    return rank.Run({.kind = Collective::kReceive,
                     .out = caller.values.data(),
                     .count = 3,
                     .root = kCulprit,
                     .timeout = kShort});
  });
  Caller caller;
  statuses[kCulprit] = group().ranks[kCulprit]->Run(caller.AllReduce(1));
  ExpectFailed(statuses, absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("receive f32 x 3 between rank 0 and rank 1 did not end within"),
                     HasSubstr("of rank 1, its last was call 2")));
}

TEST_P(CommunicatorFailureTest, AMessageThatComesFromNobody) {
  std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    if (rank.rank() > 0) return rank.Run(caller.AllReduce(7));
    return rank.Run({.kind = Collective::kReceive,
                     .out = caller.values.data(),
                     .count = 3,
                     .root = kAnyRank,
                     .timeout = kShort});
  });
  ExpectFailed(statuses, absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("receive f32 x 3 did not end within"),
                     HasSubstr("of rank 1, it is in call 3, all_reduce f32 sum x 7")));
}

TEST_P(CommunicatorFailureTest, ASubgroupFailsAlone) {
  std::vector<std::unique_ptr<Communicator>> parts(size());
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    absl::StatusOr<std::unique_ptr<Communicator>> part = rank.Split(0, 0);
    if (!part.ok()) return part.status();
    parts[rank.rank()] = *std::move(part);
    return parts[rank.rank()]->Run(caller.AllReduce(rank.rank() == kCulprit ? 3 : 4));
  });
  ExpectSame(statuses, absl::StatusCode::kFailedPrecondition, HasSubstr("world/0: rank"));
  group().Run([&](Communicator& rank) {
    Caller caller;
    EXPECT_TRUE(rank.Run(caller.AllReduce(1000)).ok());
  });
}

TEST_P(CommunicatorFailureTest, AKilledRankIsNamedInSubgroupsToo) {
  if (!backend().can_break) GTEST_SKIP() << "ranks of this backend are killed as processes";
  std::vector<std::unique_ptr<Communicator>> parts(size());
  group().Run([&](Communicator& rank) { parts[rank.rank()] = *rank.Split(0, -rank.rank()); });
  std::vector<absl::Status> statuses(size());
  group().Run([&](Communicator& rank) {
    Caller caller;
    const int index = rank.rank();
    if (index != kCulprit) {
      statuses[index] = parts[index]->Run(caller.AllReduce(1000));
    } else {
      group().Kill(kCulprit);
    }
  });
  statuses.erase(statuses.begin() + kCulprit);
  ExpectSame(statuses, absl::StatusCode::kUnavailable,
             HasSubstr("world/0: rank 1 has died or is out of reach (it has made no call yet)"));
}

INSTANTIATE_TEST_SUITE_P(All, CommunicatorFailureTest,
                         testing::ValuesIn(FailingGroupTest::Chosen(AllBackends())),
                         FailingGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(Mixed, CommunicatorFailureTest,
                         testing::ValuesIn(FailingGroupTest::Chosen({MixedBackend()})),
                         FailingGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveAll, CommunicatorFailureTest,
                         testing::ValuesIn(FailingGroupTest::Others(AllBackends())),
                         FailingGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveMixed, CommunicatorFailureTest,
                         testing::ValuesIn(FailingGroupTest::Others({MixedBackend()})),
                         FailingGroupTest::NameOf);

}  // namespace
}  // namespace muster
