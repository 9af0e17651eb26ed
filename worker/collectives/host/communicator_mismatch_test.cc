// Tests ranks that make different calls: all ranks end with one error that names the rank and both
// calls, and stay failed.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/failing_group_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class CommunicatorMismatchTest : public FailingGroupTest {};

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

TEST_P(CommunicatorMismatchTest, DifferentCalls) {
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

TEST_P(CommunicatorMismatchTest, DifferentCountsByRank) {
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

TEST_P(CommunicatorMismatchTest, AllToAllWithCountsThatDoNotMeet) {
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

TEST_P(CommunicatorMismatchTest, DeterministicOnOneRankAlone) {
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

TEST_P(CommunicatorMismatchTest, CallsInAnotherOrder) {
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

TEST_P(CommunicatorMismatchTest, AnotherOffsetOfASharedBuffer) {
  if (!backend().shares_memory) GTEST_SKIP() << "it shares no memory";
  for (const bool own_memory : {false, true}) {
    for (const Collective kind : {Collective::kAllReduce, Collective::kReduceScatter}) {
      group_ = backend().make(size());
      std::vector<std::unique_ptr<CollectiveBuffer>> buffers(size());
      const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
        absl::StatusOr<std::unique_ptr<CollectiveBuffer>> buffer = rank.Allocate(1 << 20);
        if (!buffer.ok()) return buffer.status();
        buffers[rank.rank()] = *std::move(buffer);
        auto* memory = reinterpret_cast<float*>(buffers[rank.rank()]->bytes().data());
        float* in = caller.values.data();
        if (rank.rank() != kCulprit) {
          in = memory + 16;
        } else if (!own_memory) {
          in = memory + 32;
        }
        CollectiveCall call = caller.AllReduce(100'000);
        call.kind = kind;
        call.in = call.out = in;
        if (kind == Collective::kReduceScatter) {
          call.count /= rank.size();
          call.out = in + rank.rank() * call.count;
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
}

TEST_P(CommunicatorMismatchTest, BuffersOfDifferentSizes) {
  const std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller&) {
    return rank.Allocate(rank.rank() == kCulprit ? 4096 : 8192).status();
  });
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               HasSubstr("rank 0 allocates 8192 bytes where rank 1 allocates 4096"));
}

TEST_P(CommunicatorMismatchTest, StartedCallsAllEndWithTheError) {
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

TEST_P(CommunicatorMismatchTest, MessagesOfDifferentCounts) {
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

TEST_P(CommunicatorMismatchTest, AMessageThatMeetsABarrier) {
  std::vector<absl::Status> statuses = Run([&](Communicator& rank, Caller& caller) {
    if (rank.rank() == 0) {
      const absl::Status status = rank.Run({.kind = Collective::kSend,
                                            .in = caller.values.data(),
                                            .count = 3,
                                            .root = 1,
                                            .tag = 4,
                                            .timeout = kLong});
      if (!status.ok()) return status;
    }
    const absl::Status status = rank.Run({.kind = Collective::kBarrier, .timeout = kLong});
    return status.ok() ? rank.Run(caller.AllReduce(7)) : status;
  });
  // No word of how either is carried out.
  ExpectFailed(statuses, absl::StatusCode::kFailedPrecondition,
               HasSubstr("rank 0 calls send f32 x 3 with tag 4 as message 1 where rank 1 calls "
                         "barrier as its call 3; all ranks must"));
}

TEST_P(CommunicatorMismatchTest, AMessageThatMeetsACollective) {
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

INSTANTIATE_TEST_SUITE_P(All, CommunicatorMismatchTest,
                         testing::ValuesIn(FailingGroupTest::Chosen(AllBackends())),
                         FailingGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(Mixed, CommunicatorMismatchTest,
                         testing::ValuesIn(FailingGroupTest::Chosen({MixedBackend()})),
                         FailingGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveAll, CommunicatorMismatchTest,
                         testing::ValuesIn(FailingGroupTest::Others(AllBackends())),
                         FailingGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveMixed, CommunicatorMismatchTest,
                         testing::ValuesIn(FailingGroupTest::Others({MixedBackend()})),
                         FailingGroupTest::NameOf);

}  // namespace
}  // namespace muster
