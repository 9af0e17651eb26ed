// What every communicator promises when something goes wrong: all ranks end with one error that
// names the rank and the call, and stay failed.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/communicator_backends_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Matcher;

constexpr absl::Duration kShort = absl::Milliseconds(300);
constexpr absl::Duration kLong = absl::Minutes(5);
// The rank that errs.
constexpr int kCulprit = 1;

// One rank's memory and some calls on it.
struct Caller {
  std::vector<float> values = std::vector<float>(200'000, 1);
  std::vector<float> result = std::vector<float>(1000);

  CollectiveCall AllReduce(size_t count, absl::string_view label = "") {
    return {.kind = Collective::kAllReduce,
            .in = values.data(),
            .out = values.data(),
            .count = count,
            .timeout = kLong,
            .label = label};
  }
  CollectiveCall AllGather(size_t count) {
    return {.kind = Collective::kAllGather,
            .in = values.data(),
            .out = result.data(),
            .count = count,
            .timeout = kLong};
  }
};

class CommunicatorFailureTest : public testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  CommunicatorFailureTest() : group_(backend().make(size())) {}

  static const Backend& backend() { return std::get<0>(GetParam()); }
  static int size() { return std::get<1>(GetParam()); }
  TestGroup& group() { return *group_; }

  // Two calls that go well, then `last` on every rank. What it returns, by rank; or what ends the
  // second call on a rank that is slow, while another is already in the next one.
  std::vector<absl::Status> Run(const std::function<absl::Status(Communicator&, Caller&)>& last) {
    std::vector<absl::Status> statuses(size());
    group_->Run([&](Communicator& rank) {
      Caller caller;
      absl::Status& status = statuses[rank.rank()];
      status = rank.Run(caller.AllReduce(5));
      if (status.ok()) status = rank.Run(caller.AllReduce(50'000));
      if (status.ok()) status = last(rank, caller);
    });
    return statuses;
  }

  // Every rank has the same error, with this code and text, and returns it from now on.
  void ExpectFailed(const std::vector<absl::Status>& statuses, absl::StatusCode code,
                    const Matcher<std::string>& text) {
    ExpectSame(statuses, code, text);
    std::vector<absl::Status> later(size()), started(size());
    group_->Run([&](Communicator& rank) {
      Caller caller;
      later[rank.rank()] = rank.Run(caller.AllReduce(5));
      started[rank.rank()] = rank.Start(caller.AllReduce(5))->Wait(kLong);
    });
    ExpectSame(later, code, text);
    ExpectSame(started, code, text);
  }

  static void ExpectSame(const std::vector<absl::Status>& statuses, absl::StatusCode code,
                         const Matcher<std::string>& text) {
    for (int rank = 0; rank < statuses.size(); ++rank) {
      EXPECT_EQ(statuses[rank].code(), code) << "rank " << rank << ": " << statuses[rank];
      EXPECT_THAT(std::string(statuses[rank].message()), text) << "rank " << rank;
      EXPECT_EQ(statuses[rank].message(), statuses[0].message()) << "rank " << rank;
    }
  }

  std::unique_ptr<TestGroup> group_;
};

// Waits until the rank is in a call of its own.
void AwaitInside(const Communicator& rank, uint64_t sequence) {
  while (true) {
    for (const RecordedCall& call : rank.recorder().Calls()) {
      if (call.sequence == sequence) return;
    }
    std::this_thread::yield();
  }
}

struct Difference {
  const char* name;
  // Changes the culprit's call, which is at first that of the others: a broadcast of 3000 from 0,
  // an all-reduce or all-gather of as many.
  void (*change)(CollectiveCall& call, Caller& caller);
  Collective kind;
  // Part of the text.
  const char* culprits;
  const char* others;
};

constexpr Difference kDifferences[] = {
    {"operation", [](CollectiveCall& call, Caller& caller) { call = caller.AllGather(7); },
     Collective::kAllReduce, "rank 1 calls all_gather f32 x 7 as its call 3",
     "calls all_reduce f32 sum x 3000 (\"bucket 3\") as its call 3"},
    {"type", [](CollectiveCall& call, Caller&) { call.dtype = DType::kInt32; },
     Collective::kAllReduce, "rank 1 calls all_reduce int32 sum x 3000",
     "calls all_reduce f32 sum x 3000"},
    {"count", [](CollectiveCall& call, Caller&) { call.count = 2999; }, Collective::kAllReduce,
     "rank 1 calls all_reduce f32 sum x 2999", "calls all_reduce f32 sum x 3000"},
    {"nothing", [](CollectiveCall& call, Caller&) { call.count = 0; }, Collective::kAllReduce,
     "rank 1 calls all_reduce f32 sum x 0", "calls all_reduce f32 sum x 3000"},
    {"another way", [](CollectiveCall& call, Caller&) { call.count = 200'000; },
     Collective::kAllReduce, "rank 1 calls all_reduce f32 sum x 200000",
     "calls all_reduce f32 sum x 3000"},
    {"reduction", [](CollectiveCall& call, Caller&) { call.reduction = Reduction::kMax; },
     Collective::kAllReduce, "rank 1 calls all_reduce f32 max x 3000",
     "calls all_reduce f32 sum x 3000"},
    {"root", [](CollectiveCall& call, Caller&) { call.root = 1; }, Collective::kBroadcast,
     "rank 1 calls broadcast f32 x 3000 with root 1", "calls broadcast f32 x 3000 with root 0"},
};

TEST_P(CommunicatorFailureTest, DifferentCalls) {
  for (const Difference& difference : kDifferences) {
    SCOPED_TRACE(difference.name);
    group_ = backend().make(size());
    const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
      CollectiveCall call = caller.AllReduce(3000, "bucket 3");
      call.kind = difference.kind;
      if (rank.rank() == kCulprit) difference.change(call, caller);
      return rank.Run(call);
    });
    ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr(difference.culprits), HasSubstr(difference.others)));
  }
}

TEST_P(CommunicatorFailureTest, DifferentCountsByRank) {
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    std::vector<size_t> counts(rank.size(), 100);
    counts[0] = 99;
    // The same sum.
    if (rank.rank() == kCulprit) std::swap(counts.front(), counts.back());
    CollectiveCall call = caller.AllGather(0);
    call.counts = counts;
    return rank.Run(call);
  });
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("rank 1 calls all_gather"), HasSubstr("their counts by rank")));
}

TEST_P(CommunicatorFailureTest, AllToAllWithCountsThatDoNotMeet) {
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    std::vector<size_t> counts(rank.size(), 10);
    if (rank.rank() == kCulprit) counts[0] = 11;
    const absl::Status status = rank.Run({.kind = Collective::kAllToAll,
                                          .in = caller.values.data(),
                                          .out = caller.result.data(),
                                          .count = 10,
                                          .counts = counts,
                                          .timeout = kLong});
    // To the other ranks, all is right so far.
    return status.ok() ? rank.Run(caller.AllReduce(5)) : status;
  });
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               HasSubstr("rank 0 sends 10 elements to rank 1, which expects 11"));
}

TEST_P(CommunicatorFailureTest, DeterministicOnOneRankAlone) {
  if (size() == 2 || backend().shares_memory) {
    GTEST_SKIP() << "the same algorithm either way";
  }
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    caller.values.resize(2'000'000);
    CollectiveCall call = caller.AllReduce(2'000'000);
    call.deterministic = rank.rank() == kCulprit;
    return rank.Run(call);
  });
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               HasSubstr("`deterministic` differs"));
}

TEST_P(CommunicatorFailureTest, CallsInAnotherOrder) {
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    const CollectiveCall first = caller.AllReduce(300, "bucket 0");
    const CollectiveCall second = caller.AllReduce(400, "bucket 1");
    const bool swapped = rank.rank() == kCulprit;
    const absl::Status status = rank.Run(swapped ? second : first);
    return status.ok() ? rank.Run(swapped ? first : second) : status;
  });
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("rank 1 calls all_reduce f32 sum x 400 (\"bucket 1\")"),
                     HasSubstr("calls all_reduce f32 sum x 300 (\"bucket 0\")")));
}

TEST_P(CommunicatorFailureTest, AnotherOffsetOfASharedBuffer) {
  if (!backend().shares_memory) GTEST_SKIP() << "it shares no memory";
  for (const bool own_memory : {false, true}) {
    group_ = backend().make(size());
    std::vector<std::unique_ptr<CollectiveBuffer>> buffers(size());
    const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
      absl::StatusOr<std::unique_ptr<CollectiveBuffer>> buffer = rank.Allocate(1 << 20);
      if (!buffer.ok()) return buffer.status();
      buffers[rank.rank()] = *std::move(buffer);
      auto* memory = reinterpret_cast<float*>(buffers[rank.rank()]->bytes().data());
      CollectiveCall call = caller.AllReduce(100'000);
      if (rank.rank() != kCulprit) {
        call.in = call.out = memory + 16;
      } else if (!own_memory) {
        call.in = call.out = memory + 32;
      }
      return rank.Run(call);
    });
    ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("at byte 64 of shared buffer 1"),
                       ContainsRegex(own_memory ? "rank 1 (works )?in memory of its own"
                                                : "rank 1 (works )?at byte 128 of shared")));
    buffers.clear();
  }
}

TEST_P(CommunicatorFailureTest, BuffersOfDifferentSizes) {
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller&) {
    return rank.Allocate(rank.rank() == kCulprit ? 4096 : 8192).status();
  });
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               HasSubstr("rank 0 allocates 8192 bytes where rank 1 allocates 4096"));
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
        AllOf(HasSubstr(absl::StrCat("all_reduce f32 sum x ", count,
                                     " (\"bucket 3\"), call 3, did not end within 300ms")),
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

TEST_P(CommunicatorFailureTest, StartedCallsAllEndWithTheError) {
  std::vector<std::vector<absl::Status>> of_rank(size());
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 5; ++i) {
      works.push_back(rank.Start(caller.AllReduce(rank.rank() == kCulprit && i == 2 ? 5 : 6)));
    }
    for (auto& work : works) of_rank[rank.rank()].push_back(work->Wait(kLong));
    return of_rank[rank.rank()][2];
  });
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("rank 1 calls all_reduce f32 sum x 5 as its call 5"),
                     HasSubstr("calls all_reduce f32 sum x 6 as its call 5")));
  for (const auto& ended : of_rank) {
    // The fastest rank may already be in the third.
    EXPECT_TRUE(ended[0].ok() || ended[0] == statuses[0]);
    EXPECT_TRUE(ended[1].ok() || ended[1] == statuses[0]);
    EXPECT_EQ(ended[3], statuses[0]);
    EXPECT_EQ(ended[4], statuses[0]);
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

TEST_P(CommunicatorFailureTest, LeavingWithCallsUnderWayAborts) {
  std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    if (rank.rank() != kCulprit) {
      const absl::Status status = rank.Run(caller.AllReduce(1000));
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
    ExpectSame(statuses, inside ? statuses[0].code() : absl::StatusCode::kUnavailable,
               inside ? Matcher<std::string>(HasSubstr("rank 1"))
                      : HasSubstr("rank 1 has died (its last was call 2, all_reduce f32 sum x "
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

TEST_P(CommunicatorFailureTest, MessagesOfDifferentCounts) {
  std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    CollectiveCall call = {.kind = rank.rank() == 0 ? Collective::kSend : Collective::kReceive,
                           .in = caller.values.data(),
                           .out = caller.result.data(),
                           .count = rank.rank() == 0 ? 100u : 101u,
                           .root = 1 - rank.rank(),
                           .timeout = kLong};
    if (rank.rank() <= 1) {
      const absl::Status status = rank.Run(call);
      // The sender's part is done before.
      if (!status.ok()) return status;
    }
    return rank.Run(caller.AllReduce(7));
  });
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("rank 0 calls send f32 x 100 as message 1"),
                     HasSubstr("rank 1 calls receive f32 x 101 as message 1")));
}

TEST_P(CommunicatorFailureTest, AMessageThatMeetsACollective) {
  std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    if (rank.rank() == 0) {
      const absl::Status status = rank.Run({.kind = Collective::kSend,
                                            .in = caller.values.data(),
                                            .count = 3,
                                            .root = 1,
                                            .timeout = kLong});
      if (!status.ok()) return status;
    }
    // The sender has all it needs for this one: it learns of it in the next.
    const absl::Status status = rank.Run(caller.AllReduce(7));
    return status.ok() ? rank.Run(caller.AllReduce(7)) : status;
  });
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("rank 0 calls send f32 x 3 as message 1"),
                     HasSubstr("rank 1 calls all_reduce f32 sum x 7 as its call 3")));
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
             HasSubstr("world/0: rank 1 has died (it has made no call yet)"));
}

INSTANTIATE_TEST_SUITE_P(All, CommunicatorFailureTest,
                         testing::Combine(testing::ValuesIn(AllBackends()),
                                          testing::Values(2, 3, 5)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name,
                                               std::get<1>(info.param));
                         });

}  // namespace
}  // namespace muster
