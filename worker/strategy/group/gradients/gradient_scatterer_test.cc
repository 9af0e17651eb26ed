#include "worker/strategy/group/gradients/gradient_scatterer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/group/gradients/gradient_reducer.h"
#include "worker/strategy/group/shard_cases.h"

namespace muster {
namespace {

using Holding = UnitPlaces::Holding;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Runs backward of one micro-batch on one rank as models do: units write or add as they are told,
// and the first unit of a tied tensor writes it.
class Backward {
 public:
  // Gradients are numbers in [-1, 1) or, if `integers`, small whole numbers.
  Backward(const ShardCase& model, int rank, uint64_t seed, bool integers = false)
      : model_(model),
        seed_(seed * 100 + rank),
        integers_(integers),
        written_(model.tensors.size()) {}

  void RunUnit(int unit, Accumulation store, GradientSpans gradients) {
    for (size_t t = 0; t < model_.tensors.size(); ++t) {
      if (static_cast<int>(model_.tensors[t].unit) != unit) continue;
      const int owner = model_.OwnerOf(static_cast<int>(t));
      const bool writes = store == Accumulation::kWrite && !written_[owner];
      written_[owner] = true;
      // Memory that is written over may hold anything.
      if (writes) std::fill(gradients[t].begin(), gradients[t].end(), kNaN);
      for (size_t i = 0; i < gradients[t].size(); ++i) {
        const float value = ValueOf(t, i);
        gradients[t][i] = writes ? value : gradients[t][i] + value;
      }
    }
  }

 private:
  float ValueOf(size_t tensor, size_t i) const {
    const float value = CaseValue(seed_ * 100 + tensor, i);
    return integers_ ? std::floor(value * 5) : value;
  }

  const ShardCase& model_;
  const uint64_t seed_;
  const bool integers_;
  std::vector<bool> written_;
};

// Returns where the rank's sums differ from the flat space, or its padding from 0; empty: nowhere.
std::string WrongSums(const ShardCase& model, int shard, absl::Span<const absl::Span<float>> sums,
                      absl::Span<const float> flat) {
  for (size_t p = 0; p < sums.size(); ++p) {
    const ShardLayout::Part& part = model.shards.parts()[p];
    if (sums[p].size() != part.slice) return absl::StrCat("size of part ", p);
    for (uint64_t i = 0; i < part.slice; ++i) {
      const uint64_t at = part.begin + shard * part.slice + i;
      const float expected = at < part.end ? flat[at] : 0;
      if (std::memcmp(&sums[p][i], &expected, sizeof(float)) != 0) {
        return absl::StrCat("element ", i, " of part ", p, ", at ", at,
                            " of the flat space: ", sums[p][i], " instead of ", expected);
      }
    }
  }
  return "";
}

// Runs one step of the scatterer.
absl::Status RunStep(const ShardCase& model, GradientScatterer& scatterer, int rank, uint64_t seed,
                     int micro_batches, bool integers = false) {
  for (int m = 0; m < micro_batches; ++m) {
    scatterer.BeginMicroBatch(m + 1 < micro_batches ? SeriesPosition::kMoreFollow
                                                    : SeriesPosition::kLast);
    Backward backward(model, rank, seed + m, integers);
    for (int unit = ShardCase::kUnits - 1; unit >= 0; --unit) {
      // Ranks are late at different places.
      if (CaseValue(seed + rank, unit) > 0.5f) std::this_thread::yield();
      if (absl::Status status = scatterer.BeforeWrite(unit); !status.ok()) return status;
      backward.RunUnit(unit, scatterer.GradientStore(), scatterer.gradients());
      scatterer.UnitReady(unit);
    }
  }
  return scatterer.Finish();
}

// Returns the sums that an all-reduce of whole gradients gives: of the micro-batches' sum or, if
// `by_micro_batch`, of each micro-batch, added up.
std::vector<float> AllReduced(const ShardCase& model, Communicator& communicator,
                              const GradientReducerOptions& options, uint64_t seed,
                              int micro_batches, bool by_micro_batch, bool integers = false) {
  auto reducer = GradientReducer::Create(communicator, {{0, model.layout.elements(), 0}},
                                         model.layout.elements(), options)
                     .value();
  const std::vector<absl::Span<float>> gradients =
      TensorSpans(model.layout, model.tensors, reducer->gradients());
  std::vector<float> sums;
  for (int m = 0; m < micro_batches; ++m) {
    Backward backward(model, communicator.rank(), seed + m, integers);
    for (int unit = ShardCase::kUnits - 1; unit >= 0; --unit) {
      backward.RunUnit(unit, m == 0 || by_micro_batch ? Accumulation::kWrite : Accumulation::kAdd,
                       gradients);
    }
    if (!by_micro_batch && m + 1 < micro_batches) continue;
    EXPECT_EQ(reducer->Finish(), absl::OkStatus());
    if (sums.empty()) sums.assign(model.layout.elements(), 0);
    for (size_t i = 0; i < sums.size(); ++i) {
      const float sum = reducer->gradients()[i];
      sums[i] = by_micro_batch && m > 0 ? sums[i] + sum : sum;
    }
  }
  return sums;
}

struct ScatterCase {
  int size = 1;
  bool share_memory = true;
  int64_t scale = 1;
};

class GradientScattererTest
    : public ::testing::TestWithParam<std::tuple<ScatterCase, Holding, DType, int>> {};

TEST_P(GradientScattererTest, SumsAreThoseOfAnAllReduceToTheBit) {
  const auto& [c, holding, wire, micro_batches] = GetParam();
  const ShardCase model(c.size, c.scale);
  TestRanks ranks(c.size, {.share_memory = c.share_memory});
  const GradientScattererOptions options = {
      .holding = holding, .wire = wire, .deterministic = true};
  ranks.Run([&, m = micro_batches](std::unique_ptr<Communicator> communicator) {
    auto scatterer = GradientScatterer::Create(*communicator, model.sharded(), options).value();
    const int rank = communicator->rank();
    const float* const address = scatterer->gradients()[0].data();
    for (uint64_t step = 1; step <= 2; ++step) {
      const uint64_t seed = 10 * step;
      ASSERT_EQ(RunStep(model, *scatterer, rank, seed, m), absl::OkStatus());
      const std::vector<float> expected =
          AllReduced(model, *communicator, {.wire = options.wire, .deterministic = true}, seed, m,
                     options.holding == Holding::kInFlight);
      ASSERT_EQ(WrongSums(model, rank, scatterer->sums(), expected), "") << step;
    }
    EXPECT_EQ(scatterer->gradients()[0].data(), address);
    // The head's gradients are the embedding's.
    EXPECT_EQ(scatterer->gradients()[11].data(), address);
  });
}

INSTANTIATE_TEST_SUITE_P(Small, GradientScattererTest,
                         ::testing::Combine(::testing::Values(ScatterCase{1}, ScatterCase{2},
                                                              ScatterCase{3}, ScatterCase{4, false},
                                                              ScatterCase{8}),
                                            ::testing::Values(Holding::kWhole, Holding::kInFlight),
                                            ::testing::Values(DType::kF32, DType::kBf16),
                                            ::testing::Values(1, 3)));
// These parts are so long that ranks move them in each other's memory.
INSTANTIATE_TEST_SUITE_P(Large, GradientScattererTest,
                         ::testing::Combine(::testing::Values(ScatterCase{2, true, 40},
                                                              ScatterCase{3, false, 40},
                                                              ScatterCase{4, true, 40}),
                                            ::testing::Values(Holding::kWhole, Holding::kInFlight),
                                            ::testing::Values(DType::kF32, DType::kBf16),
                                            ::testing::Values(2)));

// The bytes are the design page's table, plus the padding of parts.
TEST(GradientScattererTrafficTest, IsOneSliceForEachOtherRankAndScatter) {
  for (const int size : {1, 2, 3, 4}) {
    const ShardCase model(size);
    uint64_t once = 0;
    for (const ShardLayout::Part& part : model.shards.parts()) once += (size - 1) * part.slice;
    for (const Holding holding : {Holding::kWhole, Holding::kInFlight}) {
      for (const DType wire : {DType::kF32, DType::kBf16}) {
        TestRanks ranks(size);
        ranks.Run([&](std::unique_ptr<Communicator> communicator) {
          auto scatterer = GradientScatterer::Create(*communicator, model.sharded(),
                                                     {.holding = holding, .wire = wire})
                               .value();
          const CollectiveTraffic before = communicator->traffic();
          const size_t calls = communicator->recorder().Calls().size();
          ASSERT_EQ(RunStep(model, *scatterer, communicator->rank(), 1, 3), absl::OkStatus());
          const uint64_t scatters = holding == Holding::kWhole ? 1 : 3;
          EXPECT_EQ(communicator->traffic().sent - before.sent, scatters * once * SizeOf(wire));
          EXPECT_EQ(communicator->traffic().received - before.received,
                    scatters * once * SizeOf(wire));
          EXPECT_EQ(communicator->recorder().Calls().size() - calls,
                    communicator->size() == 1 ? 0 : scatters * model.shards.parts().size());
        });
      }
    }
  }
}

TEST(GradientScattererOrderTest, ATiedTensorGoesWithItsLastWriter) {
  const ShardCase model(2);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto scatterer = GradientScatterer::Create(*communicator, model.sharded(), {}).value();
    const size_t before = communicator->recorder().Calls().size();
    ASSERT_EQ(RunStep(model, *scatterer, communicator->rank(), 1, 1), absl::OkStatus());
    std::vector<std::string> order;
    for (const RecordedCall& call : communicator->recorder().Calls()) {
      order.push_back(std::string(call.label));
    }
    order.erase(order.begin(), order.begin() + before);
    order.erase(std::unique(order.begin(), order.end()), order.end());
    // Unit 2 adds to a tensor of unit 5, and unit 6 to one of unit 0; unit 3 has nothing.
    EXPECT_THAT(order, ::testing::ElementsAre("gradients of unit 6", "gradients of unit 4",
                                              "gradients of unit 5", "gradients of unit 2",
                                              "gradients of unit 1", "gradients of unit 0"));
  });
}

TEST(GradientScattererPaddingTest, WhatAnotherUnitHasLeftInPaddingReachesNobody) {
  const ShardCase model(3);
  for (const DType wire : {DType::kF32, DType::kBf16}) {
    TestRanks ranks(3);
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      auto scatterer = GradientScatterer::Create(*communicator, model.sharded(),
                                                 {.holding = Holding::kInFlight, .wire = wire})
                           .value();
      // The gradients of units 4 and 6 overflow. The smaller units 1 and 2 then take their places.
      const auto overflows = [](int unit) { return unit == 4 || unit == 6; };
      scatterer->BeginMicroBatch(SeriesPosition::kLast);
      for (int unit = ShardCase::kUnits - 1; unit >= 0; --unit) {
        ASSERT_EQ(scatterer->BeforeWrite(unit), absl::OkStatus());
        for (size_t t = 0; t < model.tensors.size(); ++t) {
          if (static_cast<int>(model.tensors[t].unit) != unit) continue;
          for (float& gradient : scatterer->gradients()[t]) gradient = overflows(unit) ? kNaN : 1;
        }
        scatterer->UnitReady(unit);
      }
      ASSERT_EQ(scatterer->Finish(), absl::OkStatus());
      int overflowed = 0;
      for (size_t p = 0; p < scatterer->sums().size(); ++p) {
        for (const float sum : scatterer->sums()[p]) {
          if (!overflows(model.shards.parts()[p].unit)) {
            ASSERT_TRUE(std::isfinite(sum)) << p;
          }
          overflowed += std::isnan(sum);
        }
      }
      EXPECT_GT(overflowed, 0);
    });
  }
}

// Ranks that are neighbours share; those of the same shard are replicas.
TEST(GradientScattererReplicasTest, SumsAreThoseOfAllReplicas) {
  constexpr int kRanks = 4;
  for (const int shard_count : {1, 2, 4}) {
    const ShardCase model(shard_count);
    for (const Holding holding : {Holding::kWhole, Holding::kInFlight}) {
      for (const DType wire : {DType::kF32, DType::kBf16}) {
        TestRanks ranks(kRanks);
        ranks.Run([&](std::unique_ptr<Communicator> communicator) {
          const int rank = communicator->rank();
          const int shard = rank % shard_count;
          auto shard_group = communicator->Split(rank / shard_count, rank).value();
          auto replicas = communicator->Split(shard, rank).value();
          auto scatterer = GradientScatterer::Create(*shard_group, model.sharded(),
                                                     {.holding = holding,
                                                      .wire = wire,
                                                      .deterministic = true,
                                                      .replicas = replicas.get()})
                               .value();
          for (uint64_t step = 1; step <= 2; ++step) {
            const CollectiveTraffic before = replicas->traffic();
            ASSERT_EQ(RunStep(model, *scatterer, rank, 10 * step, 2, true), absl::OkStatus());
            EXPECT_EQ(replicas->traffic().sent > before.sent, shard_count < kRanks);
            // Sums of small integers, exact in any order.
            const std::vector<float> expected =
                AllReduced(model, *communicator, {.deterministic = true}, 10 * step, 2,
                           holding == Holding::kInFlight, true);
            ASSERT_EQ(WrongSums(model, shard, scatterer->sums(), expected), "") << step;
          }
        });
      }
    }
  }
}

TEST(GradientScattererReplicasTest, WhatReplicasSendEachOtherHasMemoryForOneSlice) {
  constexpr int kRanks = 4;
  const ShardCase model(2);
  for (const Holding holding : {Holding::kWhole, Holding::kInFlight}) {
    TestRanks ranks(kRanks);
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      const int rank = communicator->rank();
      auto shard_group = communicator->Split(rank / 2, rank).value();
      std::vector<size_t> allocated;
      WatchedCommunicator replicas(communicator->Split(rank % 2, rank).value(),
                                   [&](size_t bytes) { allocated.push_back(bytes); });
      auto scatterer = GradientScatterer::Create(
                           *shard_group, model.sharded(),
                           {.holding = holding, .wire = DType::kBf16, .replicas = &replicas})
                           .value();
      EXPECT_EQ(allocated.back(), model.shards.slice_elements() * sizeof(uint16_t));
    });
  }
}

// Lets a rank die before its call number `death`; the others end with an error that names a call.
void DieAt(const ShardCase& model, Holding holding, int death) {
  TestRanks ranks(3);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto scatterer =
        GradientScatterer::Create(*communicator, model.sharded(), {.holding = holding}).value();
    ranks.AwaitAll();
    if (communicator->rank() != 1) {
      const absl::Status status = RunStep(model, *scatterer, communicator->rank(), 1, 2);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_EQ(scatterer->Finish(), status) << "nothing is under way";
      return;
    }
    int calls = 0;
    for (const SeriesPosition position : {SeriesPosition::kMoreFollow, SeriesPosition::kLast}) {
      scatterer->BeginMicroBatch(position);
      for (int unit = ShardCase::kUnits - 1; unit >= 0; --unit) {
        if (holding == Holding::kInFlight || position == SeriesPosition::kLast) {
          if (calls++ == death) {
            ranks.Kill(1);
            return;
          }
        }
        if (!scatterer->BeforeWrite(unit).ok()) return;
        scatterer->UnitReady(unit);
      }
    }
  });
}

TEST(GradientScattererFailureTest, ADeadRankEndsTheStepOnAllOthers) {
  const ShardCase model(3);
  for (int death = 0; death < ShardCase::kUnits; ++death) {
    SCOPED_TRACE(death);
    DieAt(model, Holding::kWhole, death);
  }
  for (int death = 0; death < 2 * ShardCase::kUnits; ++death) {
    SCOPED_TRACE(death);
    DieAt(model, Holding::kInFlight, death);
  }
}

// A split backward may leave a unit's gradients for later, but not until its place is needed.
TEST(GradientScattererFailureTest, AUnitThatIsNotReadyIsNotOverwritten) {
  const ShardCase model(2);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto scatterer =
        GradientScatterer::Create(*communicator, model.sharded(), {.holding = Holding::kInFlight})
            .value();
    scatterer->BeginMicroBatch(SeriesPosition::kLast);
    // Units 6 and 2 have one place, 4 and 1 the other; 5 has its own.
    ASSERT_EQ(scatterer->BeforeWrite(6), absl::OkStatus());
    ASSERT_EQ(scatterer->BeforeWrite(5), absl::OkStatus());
    ASSERT_EQ(scatterer->BeforeWrite(4), absl::OkStatus());
    scatterer->UnitReady(4);
    EXPECT_EQ(scatterer->BeforeWrite(1), absl::OkStatus());
    const absl::Status status = scatterer->BeforeWrite(2);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("unit 2 is to write its gradients where those of unit 6"));
    ranks.AwaitAll();
  });
}

TEST(GradientScattererFailureTest, AStepGivenUpHalfWayKeepsNobodyWaiting) {
  const ShardCase model(2);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto scatterer =
        GradientScatterer::Create(*communicator, model.sharded(), {.holding = Holding::kInFlight})
            .value();
    ranks.AwaitAll();
    if (communicator->rank() == 0) {
      EXPECT_FALSE(RunStep(model, *scatterer, 0, 1, 1).ok());
      return;
    }
    scatterer->BeginMicroBatch(SeriesPosition::kLast);
    ASSERT_EQ(scatterer->BeforeWrite(6), absl::OkStatus());
    scatterer->UnitReady(6);
    scatterer.reset();
  });
}

// A rank of one shard group dies. Its replica, whose own group is whole, gets no sum without it.
TEST(GradientScattererFailureTest, AGroupThatFailsGivesItsReplicasNothing) {
  const ShardCase model(2);
  TestRanks ranks(4);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    auto shard_group = communicator->Split(rank / 2, rank).value();
    auto replicas = communicator->Split(rank % 2, rank).value();
    auto scatterer =
        GradientScatterer::Create(*shard_group, model.sharded(), {.replicas = replicas.get()})
            .value();
    ranks.AwaitAll();
    if (rank == 1) {
      // The rank ends its shard group alone, like a process that has found an error.
      shard_group->Abort("it is given up");
    }
    const absl::Status status = RunStep(model, *scatterer, rank, 1, 1);
    EXPECT_FALSE(status.ok()) << rank;
  });
}

TEST(GradientScattererFailureTest, AModelWithoutTensorsIsFine) {
  const std::vector<TensorSpec> none;
  const DenseLayout layout = DenseLayout::Create(none, {}).value();
  const ShardLayout shards(layout, 2);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto scatterer =
        GradientScatterer::Create(*communicator, {layout, shards, none}, {.wire = DType::kBf16})
            .value();
    scatterer->BeginMicroBatch(SeriesPosition::kLast);
    EXPECT_EQ(scatterer->BeforeWrite(0), absl::OkStatus());
    scatterer->UnitReady(0);
    EXPECT_EQ(scatterer->Finish(), absl::OkStatus());
  });
}

}  // namespace
}  // namespace muster
