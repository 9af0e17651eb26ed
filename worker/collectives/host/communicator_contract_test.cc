// Tests on every backend that each collective with each type and reduction gives the exact result,
// whatever the sizes and places of its buffers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/collective_cases_for_testing.h"
#include "worker/collectives/host/communicator_backends_for_testing.h"
#include "worker/collectives/host/run_cases_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

constexpr size_t kSizes[] = {0, 1, 2, 3, 7, 1023};

class CommunicatorContractTest : public testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  static int size() { return std::get<1>(GetParam()); }
  static std::unique_ptr<TestGroup> Group() { return std::get<0>(GetParam()).make(size()); }
};

TEST_P(CommunicatorContractTest, EveryOperationTypeAndReduction) {
  std::vector<CollectiveCase> cases;
  uint64_t seed = 0;
  for (const Collective kind : kCollectives) {
    for (const DType dtype : kDTypes) {
      for (const Reduction reduction : kReductions) {
        if (!Reduces(kind) && reduction != Reduction::kSum) continue;
        for (const size_t count : kSizes) {
          for (const bool in_place : {false, true}) {
            for (const bool misaligned : {false, true}) {
              CollectiveCase c = {.kind = kind, .dtype = dtype, .reduction = reduction};
              c.count = count;
              c.in_place = in_place;
              c.misaligned = misaligned;
              c.seed = ++seed;
              c.root = seed % size();
              cases.push_back(c);
            }
          }
        }
      }
    }
  }
  const std::unique_ptr<TestGroup> group = Group();
  EXPECT_THAT(RunCases(*group, cases), ElementsAre());
}

TEST_P(CommunicatorContractTest, UnequalCounts) {
  std::vector<CollectiveCase> cases;
  uint64_t seed = 0;
  for (const Collective kind :
       {Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll}) {
    for (const DType dtype : kDTypes) {
      for (const Reduction reduction : kReductions) {
        if (!Reduces(kind) && reduction != Reduction::kSum) continue;
        for (const size_t count : {1, 2, 7, 1023}) {
          for (const bool in_place : {false, true}) {
            for (const bool misaligned : {false, true}) {
              CollectiveCase c = {.kind = kind, .dtype = dtype, .reduction = reduction};
              c.count = count;
              c.unequal = true;
              c.in_place = in_place;
              c.misaligned = misaligned;
              c.seed = ++seed;
              cases.push_back(c);
            }
          }
        }
      }
    }
  }
  const std::unique_ptr<TestGroup> group = Group();
  EXPECT_THAT(RunCases(*group, cases), ElementsAre());
}

TEST_P(CommunicatorContractTest, ReducesBitsOfIntegers) {
  std::vector<CollectiveCase> cases;
  for (const Collective kind :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUint8}) {
      for (const Reduction reduction :
           {Reduction::kBitAnd, Reduction::kBitOr, Reduction::kBitXor}) {
        for (const size_t count : {3, 5000}) {
          cases.push_back({.kind = kind, .dtype = dtype, .reduction = reduction, .count = count});
        }
      }
    }
  }
  const std::unique_ptr<TestGroup> group = Group();
  EXPECT_THAT(RunCases(*group, cases), ElementsAre());
  Faults faults;
  group->Run([&](Communicator& rank) {
    float value = 1;
    const absl::Status status = rank.Run({.kind = Collective::kAllReduce,
                                          .reduction = Reduction::kBitOr,
                                          .in = &value,
                                          .out = &value,
                                          .count = 1});
    if (status.code() != absl::StatusCode::kInvalidArgument) faults.Add(status.ToString());
    if (!absl::StrContains(status.message(), "bor, which only integers have")) {
      faults.Add(status.ToString());
    }
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

// Inputs whose sums are rounded: the order of addition must be the same on all ranks and again.
TEST_P(CommunicatorContractTest, TheSameBitsOnEveryRankAndRun) {
  const std::unique_ptr<TestGroup> group = Group();
  for (const bool deterministic : {false, true}) {
    for (const size_t count : {5, 1000, 40000}) {
      std::vector<std::vector<float>> results(2 * size());
      Faults faults;
      group->Run([&](Communicator& rank) {
        for (int run = 0; run < 2; ++run) {
          std::vector<float>& values = results[2 * rank.rank() + run];
          values.resize(count);
          for (size_t i = 0; i < count; ++i) {
            values[i] = std::sin(static_cast<float>(1 + i * 31 + rank.rank() * 17));
          }
          faults.Add(rank.Run({.kind = Collective::kAllReduce,
                               .in = values.data(),
                               .out = values.data(),
                               .count = count,
                               .deterministic = deterministic}));
        }
      });
      ASSERT_THAT(faults.Take(), ElementsAre());
      for (const std::vector<float>& result : results) {
        ASSERT_EQ(0, std::memcmp(result.data(), results[0].data(), count * sizeof(float)));
      }
    }
  }
}

// Deterministic sums are those in rank order.
TEST_P(CommunicatorContractTest, DeterministicAddsInRankOrder) {
  const std::unique_ptr<TestGroup> group = Group();
  const auto input = [](int rank, size_t i) {
    return std::sin(static_cast<float>(1 + i * 31 + rank * 17));
  };
  Faults faults;
  group->Run([&](Communicator& rank) {
    for (const size_t count : {3, 50000}) {
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = input(rank.rank(), i);
      faults.Add(rank.Run({.kind = Collective::kAllReduce,
                           .in = values.data(),
                           .out = values.data(),
                           .count = count,
                           .deterministic = true}));
      for (size_t i = 0; i < count; ++i) {
        float sum = input(0, i);
        for (int other = 1; other < rank.size(); ++other) sum += input(other, i);
        if (sum != values[i]) return faults.Add(absl::StrCat("element ", i, " of ", count));
      }
    }
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorContractTest, StartedCallsRunInOrderAndMixWithRun) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    constexpr int kCalls = 12;
    std::vector<CaseRunner> runners(kCalls, CaseRunner(rank.rank(), rank.size()));
    for (int round = 0; round < 10; ++round) {
      std::vector<std::shared_ptr<Work>> works(kCalls);
      std::vector<int> order;
      absl::Mutex mutex;
      for (int i = 0; i < kCalls; ++i) {
        const CollectiveCase c = {.kind = kCollectives[(round + i) % 7],
                                  .dtype = kDTypes[i % 7],
                                  .count = static_cast<size_t>(i * 100 + round),
                                  .in_place = i % 2 == 0,
                                  .root = i % rank.size(),
                                  .seed = static_cast<uint64_t>(round * 100 + i)};
        const CollectiveCall call = runners[i].Prepare(c);
        if (i % 5 == 4) {
          faults.Add(rank.Run(call));
          continue;
        }
        works[i] = rank.Start(call);
        works[i]->OnDone([&order, &mutex, i](const absl::Status&) {
          absl::MutexLock lock(&mutex);
          order.push_back(i);
        });
      }
      // Even and odd ranks wait in opposite orders.
      for (int i = 0; i < kCalls; ++i) {
        const int which = rank.rank() % 2 == 0 ? i : kCalls - 1 - i;
        if (works[which] != nullptr) faults.Add(works[which]->Wait(absl::Minutes(2)));
      }
      for (int i = 0; i < kCalls; ++i) faults.Add(runners[i].Check());
      faults.Add(rank.Run({.kind = Collective::kBarrier}));
      absl::MutexLock lock(&mutex);
      if (!std::is_sorted(order.begin(), order.end())) faults.Add("ended out of order");
    }
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorContractTest, MessagesKeepTheirOrderByPair) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    // Three messages to every other rank and from it, of which two are larger than a pipe.
    constexpr size_t kCounts[] = {100, 100'000, 70'001};
    const int size = rank.size();
    std::vector<std::vector<int64_t>> out, in;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 3 * size; ++i) {
      const int peer = i % size;
      out.emplace_back(kCounts[i / size], rank.rank() * 1000 + i / size);
      in.emplace_back(kCounts[i / size]);
      if (peer == rank.rank()) continue;
      works.push_back(rank.Start({.kind = Collective::kSend,
                                  .dtype = DType::kInt64,
                                  .in = out[i].data(),
                                  .count = out[i].size(),
                                  .root = peer}));
    }
    for (int i = 0; i < 3 * size; ++i) {
      const int peer = i % size;
      if (peer == rank.rank()) continue;
      works.push_back(rank.Start({.kind = Collective::kReceive,
                                  .dtype = DType::kInt64,
                                  .out = in[i].data(),
                                  .count = in[i].size(),
                                  .root = peer}));
    }
    for (auto& work : works) faults.Add(work->Wait(absl::Minutes(2)));
    for (int i = 0; i < 3 * size; ++i) {
      const int64_t expected = i % size * 1000 + i / size;
      if (i % size == rank.rank()) continue;
      if (std::count(in[i].begin(), in[i].end(), expected) != in[i].size()) {
        faults.Add("a message has other contents");
      }
    }
    faults.Add(rank.Run({.kind = Collective::kBarrier}));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

// Receives name tags in another order than sends, and some messages are larger than a pipe.
TEST_P(CommunicatorContractTest, AReceiveTakesTheNextMessageOfItsTag) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    constexpr int kTags[] = {5, 0, 5, 7, 0, 7};
    constexpr size_t kCounts[] = {100'000, 3, 70'001, 0, 50'000, 9};
    // Messages of one tag stay in order.
    constexpr int kAsked[] = {3, 1, 0, 5, 2, 4};
    const int size = rank.size();
    const int next = (rank.rank() + 1) % size, previous = (rank.rank() + size - 1) % size;
    if (size < 2) return;
    std::vector<std::vector<int64_t>> out;
    std::vector<std::shared_ptr<Work>> sends;
    for (int i = 0; i < 6; ++i) {
      out.emplace_back(kCounts[i], rank.rank() * 1000 + i);
      sends.push_back(rank.Start({.kind = Collective::kSend,
                                  .dtype = DType::kInt64,
                                  .in = out[i].data(),
                                  .count = out[i].size(),
                                  .root = next,
                                  .tag = kTags[i]}));
    }
    for (const int i : kAsked) {
      std::vector<int64_t> in(kCounts[i]);
      int source = -1;
      faults.Add(rank.Run({.kind = Collective::kReceive,
                           .dtype = DType::kInt64,
                           .out = in.data(),
                           .count = in.size(),
                           .root = i % 2 == 0 ? previous : kAnyRank,
                           .tag = kTags[i],
                           .source = &source,
                           .timeout = absl::Minutes(2)}));
      if (source != previous) faults.Add("another rank is said to have sent");
      if (std::count(in.begin(), in.end(), previous * 1000 + i) != in.size()) {
        faults.Add("a message has other contents");
      }
    }
    for (auto& work : sends) faults.Add(work->Wait(absl::Minutes(2)));
    faults.Add(rank.Run({.kind = Collective::kBarrier}));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

// Ranks that have sent go on to a barrier while rank 0 still receives, from others and large ones.
TEST_P(CommunicatorContractTest, AReceiveFromAnyRankNamesIt) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    constexpr size_t kCount = 60'000;
    constexpr int kRounds = 3;
    std::vector<int64_t> values(kCount, rank.rank());
    for (int i = 0; i < kRounds * (rank.size() - 1) && rank.rank() == 0; ++i) {
      int source = -1;
      faults.Add(rank.Run({.kind = Collective::kReceive,
                           .dtype = DType::kInt64,
                           .out = values.data(),
                           .count = kCount,
                           .root = kAnyRank,
                           .tag = 1 + i % kRounds,
                           .source = &source,
                           .timeout = absl::Minutes(2)}));
      if (std::count(values.begin(), values.end(), source) != kCount) {
        faults.Add("a message is not that of the rank that is named");
      }
    }
    for (int i = 0; i < kRounds && rank.rank() > 0; ++i) {
      faults.Add(rank.Run({.kind = Collective::kSend,
                           .dtype = DType::kInt64,
                           .in = values.data(),
                           .count = kCount,
                           .root = 0,
                           .tag = 1 + i,
                           .timeout = absl::Minutes(2)}));
    }
    faults.Add(rank.Run({.kind = Collective::kBarrier, .timeout = absl::Minutes(2)}));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

// Every rank exchanges with both neighbours at once, more than their pipes hold; the order in which
// a rank names its messages is its own.
TEST_P(CommunicatorContractTest, MessagesThatAreStartedTogetherPassOneAnother) {
  if (size() < 2) GTEST_SKIP() << "a message needs two ranks";
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    constexpr size_t kCount = 50'000;
    const int ranks = rank.size();
    const int peers[] = {(rank.rank() + 1) % ranks, (rank.rank() + ranks - 1) % ranks};
    for (int round = 0; round < 4; ++round) {
      std::vector<int64_t> out(kCount, rank.rank() * 100 + round);
      std::vector<std::vector<int64_t>> in(2, std::vector<int64_t>(kCount));
      std::vector<CollectiveCall> messages;
      for (int i = 0; i < (ranks == 2 ? 1 : 2); ++i) {
        messages.push_back({.kind = Collective::kSend,
                            .dtype = DType::kInt64,
                            .in = out.data(),
                            .count = kCount,
                            .root = peers[i]});
        messages.push_back({.kind = Collective::kReceive,
                            .dtype = DType::kInt64,
                            .out = in[i].data(),
                            .count = kCount,
                            .root = peers[i]});
      }
      if ((rank.rank() + round) % 2 == 0) std::reverse(messages.begin(), messages.end());
      const std::vector<std::shared_ptr<Work>> works = rank.StartMessages(messages);
      if (works.size() != messages.size()) return faults.Add("not one handle for each message");
      for (const std::shared_ptr<Work>& work : works) faults.Add(work->Wait(absl::Minutes(2)));
      for (int i = 0; i < (ranks == 2 ? 1 : 2); ++i) {
        if (std::count(in[i].begin(), in[i].end(), peers[i] * 100 + round) != kCount) {
          faults.Add("a message has other contents");
        }
      }
    }
    faults.Add(rank.Run({.kind = Collective::kBarrier}));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorContractTest, AWrongMessageIsRefusedAlone) {
  if (size() < 2) GTEST_SKIP() << "a message needs two ranks";
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    if (rank.rank() > 1) return;
    float value = static_cast<float>(rank.rank());
    float other = -1;
    const int peer = 1 - rank.rank();
    const std::vector<std::shared_ptr<Work>> works = rank.StartMessages(
        {{.kind = Collective::kSend, .in = &value, .count = 1, .root = rank.rank()},
         {.kind = Collective::kSend, .in = &value, .count = 1, .root = peer},
         {.kind = Collective::kReceive, .out = &other, .count = 1, .root = peer}});
    if (!absl::IsInvalidArgument(works[0]->Wait(absl::Minutes(2)))) faults.Add("not refused");
    faults.Add(works[1]->Wait(absl::Minutes(2)));
    faults.Add(works[2]->Wait(absl::Minutes(2)));
    if (other != static_cast<float>(peer)) faults.Add("wrong value");
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

// Sends from every rank to the next one.
TEST_P(CommunicatorContractTest, MessagesOfEveryTypeAndSize) {
  if (size() < 2) GTEST_SKIP() << "a message needs two ranks";
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    const int next = (rank.rank() + 1) % rank.size();
    const int previous = (rank.rank() + rank.size() - 1) % rank.size();
    // Around what is sent and received.
    constexpr size_t kGuard = 16;
    size_t message = 0;
    const auto byte_at = [&](size_t sender, size_t i) {
      return static_cast<std::byte>(i * 7 + (i >> 8) + sender * 31 + message);
    };
    for (const DType dtype : kDTypes) {
      for (const size_t count : kSizes) {
        for (const bool misaligned : {false, true}) {
          ++message;
          const size_t bytes = count * SizeOf(dtype);
          std::vector<std::byte> in(bytes + 2 * kGuard), out(bytes + 2 * kGuard, std::byte{0xa5});
          std::vector<std::byte> expected = out;
          std::byte* const from = in.data() + kGuard + (misaligned ? 1 : 0);
          const size_t to = kGuard + (misaligned ? 3 : 0);
          for (size_t i = 0; i < bytes; ++i) {
            from[i] = byte_at(rank.rank(), i);
            expected[to + i] = byte_at(previous, i);
          }
          const std::shared_ptr<Work> sent = rank.Start({.kind = Collective::kSend,
                                                         .dtype = dtype,
                                                         .in = from,
                                                         .count = count,
                                                         .root = next});
          faults.Add(rank.Run({.kind = Collective::kReceive,
                               .dtype = dtype,
                               .out = out.data() + to,
                               .count = count,
                               .root = previous}));
          faults.Add(sent->Wait(absl::Minutes(2)));
          if (out != expected) {
            faults.Add(absl::StrCat(Name(dtype), " x ", count, misaligned ? " misaligned" : "",
                                    ": other bytes than were sent, or bytes beside them"));
          }
        }
      }
    }
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorContractTest, RunSendsAndReceives) {
  if (size() < 2) GTEST_SKIP() << "a message needs two ranks";
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    // A value goes around, one more at each rank.
    const int next = (rank.rank() + 1) % rank.size();
    const int previous = (rank.rank() + rank.size() - 1) % rank.size();
    std::vector<int32_t> values(30'000, 1);
    const CollectiveCall send = {.kind = Collective::kSend,
                                 .dtype = DType::kInt32,
                                 .in = values.data(),
                                 .count = values.size(),
                                 .root = next};
    const CollectiveCall receive = {.kind = Collective::kReceive,
                                    .dtype = DType::kInt32,
                                    .out = values.data(),
                                    .count = values.size(),
                                    .root = previous};
    if (rank.rank() == 0) faults.Add(rank.Run(send));
    faults.Add(rank.Run(receive));
    if (values[0] != (rank.rank() == 0 ? rank.size() : rank.rank())) faults.Add("wrong value");
    for (int32_t& value : values) ++value;
    if (rank.rank() != 0) faults.Add(rank.Run(send));
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorContractTest, SplitMakesGroupsOrderedByKey) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    for (int round = 0; round < 3; ++round) {
      // Every third rank joins none; the others by parity, the last one first.
      const int colour = rank.rank() % 3 == 2 ? -1 : rank.rank() % 2;
      absl::StatusOr<std::unique_ptr<Communicator>> part = rank.Split(colour, -rank.rank());
      faults.Add(part.status());
      if (!part.ok()) return;
      if (colour < 0) {
        if (*part != nullptr) faults.Add("a group for a rank that joins none");
        continue;
      }
      std::vector<int> members;
      for (int other = rank.size() - 1; other >= 0; --other) {
        if (other % 3 != 2 && other % 2 == colour) members.push_back(other);
      }
      if ((*part)->size() != members.size() || members[(*part)->rank()] != rank.rank()) {
        faults.Add("wrong size or rank");
      }
      if ((*part)->recorder().group() != absl::StrCat("world/", colour)) faults.Add("wrong name");
      CaseRunner runner((*part)->rank(), (*part)->size());
      faults.Add((*part)->Run(runner.Prepare({.count = 5000})));
      faults.Add(runner.Check());
      // Both groups are usable at once.
      faults.Add((*part)->Run({.kind = Collective::kBarrier}));
    }
    CaseRunner runner(rank.rank(), rank.size());
    faults.Add(rank.Run(runner.Prepare({.count = 77})));
    faults.Add(runner.Check());
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorContractTest, AllocatedBuffersAreServedInPlace) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    const size_t bytes = 3 << 20;
    absl::StatusOr<std::unique_ptr<CollectiveBuffer>> first = rank.Allocate(100);
    absl::StatusOr<std::unique_ptr<CollectiveBuffer>> buffer = rank.Allocate(bytes);
    faults.Add(first.status());
    faults.Add(buffer.status());
    if (!first.ok() || !buffer.ok()) return;
    first->reset();
    const absl::Span<std::byte> memory = (*buffer)->bytes();
    if (memory.size() != bytes) faults.Add("wrong size");
    if (std::count(memory.begin(), memory.end(), std::byte{0}) != bytes) faults.Add("not zeroed");
    if (reinterpret_cast<uintptr_t>(memory.data()) % 64 != 0) faults.Add("not aligned");
    CaseRunner runner(rank.rank(), rank.size());
    uint64_t seed = 0;
    const bool shared = std::get<0>(GetParam()).shares_memory;
    for (const Collective kind :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
      const size_t slices = kind == Collective::kAllReduce ? 1 : rank.size();
      for (const DType dtype : kDTypes) {
        for (const Reduction reduction : kReductions) {
          if ((!shared || !Reduces(kind)) && reduction != Reduction::kSum) continue;
          for (const size_t count : {1, 33'001}) {
            for (const size_t offset : {64, 1001}) {
              const CollectiveCase c = {.kind = kind,
                                        .dtype = dtype,
                                        .reduction = reduction,
                                        .count = (count + slices - 1) / slices,
                                        .unequal = slices > 1 && offset == 1001,
                                        .in_place = true,
                                        .seed = ++seed};
              faults.Add(rank.Run(runner.Prepare(c, memory.data() + offset)));
              faults.Add(runner.Check());
            }
          }
        }
      }
    }
    // Other operations serve such a buffer too.
    for (const Collective kind : kCollectives) {
      const CollectiveCase c = {.kind = kind, .count = 5000, .in_place = true, .seed = ++seed};
      faults.Add(rank.Run(runner.Prepare(c, memory.data())));
      faults.Add(runner.Check());
    }
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorContractTest, AllocatedBuffersAreScatteredToAndGatheredFromOtherMemory) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    // The larger one is gathered past the caches.
    const bool large = std::get<0>(GetParam()).shares_memory && rank.size() <= 3;
    const size_t slice = large ? 1'200'000 : 20'000;
    const size_t count = slice * rank.size();
    absl::StatusOr<std::unique_ptr<CollectiveBuffer>> buffer = rank.Allocate(count * sizeof(float));
    faults.Add(buffer.status());
    if (!buffer.ok()) return;
    auto* const values = reinterpret_cast<float*>((*buffer)->bytes().data());
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + rank.rank());
    std::vector<float> own(slice);
    const CollectiveTraffic before = rank.traffic();
    faults.Add(rank.Run(
        {.kind = Collective::kReduceScatter, .in = values, .out = own.data(), .count = slice}));
    const size_t ranks = rank.size();
    for (size_t i = 0; i < count; ++i) {
      if (values[i] != i + rank.rank()) faults.Add("the input has changed");
    }
    for (size_t i = 0; i < slice; ++i) {
      const size_t sum = ranks * (rank.rank() * slice + i) + ranks * (ranks - 1) / 2;
      if (own[i] != sum) faults.Add("a sum is wrong");
      own[i] = static_cast<float>(rank.rank() * slice + i);
    }
    faults.Add(rank.Run(
        {.kind = Collective::kAllGather, .in = own.data(), .out = values, .count = slice}));
    for (size_t i = 0; i < count; ++i) {
      if (values[i] != i) faults.Add("an element is wrong");
    }
    if (rank.traffic().sent - before.sent != 2 * (ranks - 1) * slice * sizeof(float) ||
        rank.traffic().received - before.received != 2 * (ranks - 1) * slice * sizeof(float)) {
      faults.Add("counted wrongly");
    }
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

TEST_P(CommunicatorContractTest, CountsPayloadAndRecordsCalls) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  std::vector<CollectiveTraffic> traffic(size());
  group->Run([&](Communicator& rank) {
    CaseRunner runner(rank.rank(), rank.size());
    faults.Add(rank.Run({.kind = Collective::kBarrier}));
    // 2(W-1)/W of the bytes, by whatever road.
    faults.Add(rank.Run(runner.Prepare({.count = 65536u * rank.size()})));
    traffic[rank.rank()] = rank.traffic();
    const std::vector<RecordedCall> calls = rank.recorder().Calls();
    if (calls.size() != 2 || calls[1].sequence != 2 || calls[1].kind != Collective::kAllReduce ||
        calls[1].label != "a case" || calls[1].duration == absl::InfiniteDuration() ||
        !calls[1].status.ok()) {
      faults.Add("recorded wrongly");
    }
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
  for (const CollectiveTraffic& of_rank : traffic) {
    EXPECT_EQ(of_rank.sent, 2u * (size() - 1) * 65536 * 4);
    EXPECT_EQ(of_rank.received, 2u * (size() - 1) * 65536 * 4);
  }
}

TEST_P(CommunicatorContractTest, WrongArgumentsAreRefusedAndHarmless) {
  const std::unique_ptr<TestGroup> group = Group();
  Faults faults;
  group->Run([&](Communicator& rank) {
    std::vector<float> values(8);
    const std::vector<size_t> counts(rank.size() + 1, 1);
    const CollectiveCall wrong[] = {
        {.kind = Collective::kAllReduce, .in = nullptr, .out = values.data(), .count = 4},
        {.kind = Collective::kAllReduce, .in = values.data(), .out = nullptr, .count = 4},
        {.kind = Collective::kAllReduce, .in = &values[0], .out = &values[1], .count = 4},
        {.kind = Collective::kAllGather, .in = &values[0], .out = &values[0], .counts = counts},
        {.kind = Collective::kBroadcast, .in = &values[0], .out = &values[0], .root = -1},
        {.kind = Collective::kReduce, .in = &values[0], .out = &values[0], .root = rank.size()},
        {.kind = Collective::kSend, .in = &values[0], .count = 1, .root = rank.rank()},
        {.kind = Collective::kBarrier, .timeout = absl::ZeroDuration()},
        {.kind = Collective::kAllReduce,
         .in = &values[0],
         .out = &values[0],
         .count = static_cast<size_t>(-1)},
    };
    // Only some ranks make the mistake.
    if (rank.rank() % 2 == 0) {
      for (const CollectiveCall& call : wrong) {
        const absl::Status status = rank.Run(call);
        if (status.code() != absl::StatusCode::kInvalidArgument) faults.Add(status.ToString());
        if (rank.Start(call)->Wait(absl::Minutes(1)) != status) faults.Add("Start differs");
      }
    }
    CaseRunner runner(rank.rank(), rank.size());
    faults.Add(rank.Run(runner.Prepare({.count = 9})));
    faults.Add(runner.Check());
  });
  EXPECT_THAT(faults.Take(), ElementsAre());
}

std::string NameOf(const testing::TestParamInfo<std::tuple<Backend, int>>& info) {
  return absl::StrCat(std::get<0>(info.param).name, std::get<1>(info.param));
}

// By default each backend has sizes that are a power of two and that are none, and one group has
// eight ranks.
SizesByBackend DefaultContractSizes() {
  return {{"InProcess", {1, 3, 6}}, {"Narrow", {2, 5}}, {"SharedMemory", {4, 8}},
          {"Tcp", {3, 4}},          {"Tls", {2, 3}},    {"Mixed", {3, 4}}};
}

INSTANTIATE_TEST_SUITE_P(All, CommunicatorContractTest,
                         testing::ValuesIn(ChosenOf(AllBackends(), {1, 2, 3, 4, 5, 6, 7, 8, 15},
                                                    DefaultContractSizes())),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Mixed, CommunicatorContractTest,
                         testing::ValuesIn(ChosenOf({MixedBackend()}, {3, 4, 5, 6, 7, 8},
                                                    DefaultContractSizes())),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveAll, CommunicatorContractTest,
                         testing::ValuesIn(OthersOf(AllBackends(), {1, 2, 3, 4, 5, 6, 7, 8, 15},
                                                    DefaultContractSizes())),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveMixed, CommunicatorContractTest,
                         testing::ValuesIn(OthersOf({MixedBackend()}, {3, 4, 5, 6, 7, 8},
                                                    DefaultContractSizes())),
                         NameOf);

}  // namespace
}  // namespace muster
