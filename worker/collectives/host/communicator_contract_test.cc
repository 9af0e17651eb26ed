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
#include "worker/collectives/host/run_cases_for_testing.h"
#include "worker/collectives/host/sound_group_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

class CommunicatorContractTest : public SoundGroupTest {};

TEST_P(CommunicatorContractTest, EveryOperationTypeAndReduction) {
  std::vector<CollectiveCase> cases;
  uint64_t seed = 0;
  for (const Collective kind : kCollectives) {
    for (const DType dtype : kDTypes) {
      for (const Reduction reduction : kReductions) {
        if (!Reduces(kind) && reduction != Reduction::kSum) continue;
        for (const size_t count : kContractSizes) {
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

INSTANTIATE_TEST_SUITE_P(All, CommunicatorContractTest,
                         testing::ValuesIn(SoundGroupTest::Chosen(AllBackends())),
                         SoundGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(Mixed, CommunicatorContractTest,
                         testing::ValuesIn(SoundGroupTest::Chosen({MixedBackend()})),
                         SoundGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveAll, CommunicatorContractTest,
                         testing::ValuesIn(SoundGroupTest::Others(AllBackends())),
                         SoundGroupTest::NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveMixed, CommunicatorContractTest,
                         testing::ValuesIn(SoundGroupTest::Others({MixedBackend()})),
                         SoundGroupTest::NameOf);

}  // namespace
}  // namespace muster
