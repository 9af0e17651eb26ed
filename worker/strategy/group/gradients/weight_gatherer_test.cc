#include "worker/strategy/group/gradients/weight_gatherer.h"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tensor/half.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/group/shard_cases.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Holding = UnitPlaces::Holding;

// One rank's weights, in its slice space or elsewhere.
struct OwnWeights {
  explicit OwnWeights(const ShardLayout& shards) : space(shards.slice_elements()) {
    for (const ShardLayout::Part& part : shards.parts()) {
      by_part.push_back(absl::MakeSpan(space).subspan(part.slice_begin, part.slice));
    }
  }

  // Gives every element that the rank owns the clock's value.
  void Fill(const ShardLayout& shards, int rank, uint64_t clock) {
    for (size_t p = 0; p < by_part.size(); ++p) {
      const ShardLayout::Part& part = shards.parts()[p];
      for (uint64_t i = 0; i < part.slice; ++i) {
        const uint64_t flat = part.begin + rank * part.slice + i;
        if (flat < part.end) by_part[p][i] = CaseValue(clock, flat);
      }
    }
  }

  std::vector<absl::Span<const float>> view() const { return {by_part.begin(), by_part.end()}; }

  std::vector<float> space;
  std::vector<absl::Span<float>> by_part;
};

// Returns which of the unit's parameters are not the clock's; empty if all are.
std::string WrongParameters(const ShardCase& model, const WeightGatherer& gatherer, int unit,
                            uint64_t clock) {
  const ModelParameters parameters = gatherer.parameters();
  for (int t = 0; t < static_cast<int>(model.tensors.size()); ++t) {
    const TensorSpec& tensor = model.tensors[t];
    if (static_cast<int>(tensor.unit) != unit) continue;
    const uint64_t begin = model.layout.tensor_offset(t);
    const DType compute = model.shards.parts()[model.shards.PartOf(begin)].compute;
    std::vector<float> expected(tensor.elements());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = CaseValue(clock, begin + i);
    if (compute == DType::kF32) {
      const absl::Span<const float> values = parameters.values[t];
      if (parameters.rounded[t] != nullptr || values.size() != expected.size() ||
          std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)) != 0) {
        return tensor.name;
      }
      continue;
    }
    std::vector<uint16_t> bits(expected.size());
    RoundToHalf(compute, expected, bits.data());
    if (!parameters.values[t].empty() ||
        std::memcmp(parameters.rounded[t], bits.data(), bits.size() * sizeof(uint16_t)) != 0) {
      return tensor.name;
    }
  }
  return "";
}

// Waits for the unit and its tied ones, like a strategy that acquires the unit.
absl::Status AwaitWithTied(WeightGatherer& gatherer, int unit) {
  absl::Status status = gatherer.Await(unit);
  for (const int owner : gatherer.places().tied_units(unit)) status.Update(gatherer.Await(owner));
  return status;
}

void StartWithTied(WeightGatherer& gatherer, int unit, const OwnWeights& weights) {
  gatherer.Start(unit, weights.view());
  for (const int owner : gatherer.places().tied_units(unit)) {
    gatherer.Start(owner, weights.view());
  }
}

// A rank that now and then lets others run.
class Dawdler {
 public:
  explicit Dawdler(uint64_t seed) : seed_(seed) {}
  void Dawdle() {
    const int turns = CaseValue(seed_, ++calls_) > 0.5f ? 3 : 0;
    for (int i = 0; i < turns; ++i) std::this_thread::yield();
  }

 private:
  const uint64_t seed_;
  uint64_t calls_ = 0;
};

class WeightGathererTest : public ::testing::TestWithParam<std::tuple<int, bool, int64_t>> {};

TEST_P(WeightGathererTest, UnitsInFlightAreThereInBothDirectionsWithOneAheadOfUse) {
  const auto [size, share_memory, scale] = GetParam();
  const ShardCase model(size, scale);
  TestRanks ranks(size, {.share_memory = share_memory});
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto gatherer =
        WeightGatherer::Create(*communicator, model.sharded(), {.holding = Holding::kInFlight})
            .value();
    const ModelParameters first = gatherer->parameters();
    OwnWeights weights(model.shards);
    Dawdler dawdler(communicator->rank());
    for (uint64_t clock = 1; clock <= 2; ++clock) {
      gatherer->Outdate();
      weights.Fill(model.shards, communicator->rank(), clock);
      // Forward, then backward.
      for (int i = 0; i < 2 * ShardCase::kUnits; ++i) {
        const auto unit_at = [](int at) { return std::min(at, 2 * ShardCase::kUnits - 1 - at); };
        const int unit = unit_at(i);
        dawdler.Dawdle();
        StartWithTied(*gatherer, unit, weights);
        ASSERT_EQ(AwaitWithTied(*gatherer, unit), absl::OkStatus());
        if (i + 1 < 2 * ShardCase::kUnits) StartWithTied(*gatherer, unit_at(i + 1), weights);
        dawdler.Dawdle();
        ASSERT_EQ(WrongParameters(model, *gatherer, unit, clock), "") << i;
      }
    }
    EXPECT_EQ(gatherer->parameters().values.data(), first.values.data());
    EXPECT_EQ(gatherer->parameters().rounded.data(), first.rounded.data());
    gatherer->Outdate();
  });
}

TEST_P(WeightGathererTest, WholeParametersStayAndWeightsCanLiveAmongThem) {
  const auto [size, share_memory, scale] = GetParam();
  const ShardCase model(size, scale);
  TestRanks ranks(size, {.share_memory = share_memory});
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto gatherer = WeightGatherer::Create(*communicator, model.sharded(), {}).value();
    OwnWeights weights(model.shards);
    for (size_t p = 0; p < model.shards.parts().size(); ++p) {
      if (model.shards.parts()[p].compute != DType::kF32) continue;
      weights.by_part[p] = gatherer->own_slice(p);
      ASSERT_EQ(weights.by_part[p].size(), model.shards.parts()[p].slice);
    }
    for (uint64_t clock = 1; clock <= 2; ++clock) {
      gatherer->Outdate();
      weights.Fill(model.shards, communicator->rank(), clock);
      for (int unit = 0; unit < ShardCase::kUnits; ++unit) {
        EXPECT_EQ(gatherer->Holds(unit), unit == 3) << "unit 3 has no tensors";
        gatherer->Start(unit, weights.view());
        EXPECT_TRUE(gatherer->Holds(unit));
      }
      for (int unit = 0; unit < ShardCase::kUnits; ++unit) {
        ASSERT_EQ(gatherer->Await(unit), absl::OkStatus());
      }
      for (int unit = 0; unit < ShardCase::kUnits; ++unit) {
        ASSERT_EQ(WrongParameters(model, *gatherer, unit, clock), "");
      }
    }
  });
}

// The bytes are the design page's table, plus the padding of parts.
TEST_P(WeightGathererTest, WhatIsHeldIsNotSentAgain) {
  const auto [size, share_memory, scale] = GetParam();
  const ShardCase model(size, scale);
  uint64_t expected = 0;
  for (const ShardLayout::Part& part : model.shards.parts()) {
    expected += (part.slices - 1) * part.slice * SizeOf(part.compute);
  }
  TestRanks ranks(size, {.share_memory = share_memory});
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto gatherer = WeightGatherer::Create(*communicator, model.sharded(), {}).value();
    const OwnWeights weights(model.shards);
    const CollectiveTraffic before = communicator->traffic();
    const size_t calls = communicator->recorder().Calls().size();
    for (int pass = 0; pass < 3; ++pass) {
      for (int unit = 0; unit < ShardCase::kUnits; ++unit) {
        gatherer->Start(unit, weights.view());
        ASSERT_EQ(gatherer->Await(unit), absl::OkStatus());
      }
      EXPECT_EQ(communicator->traffic().sent - before.sent, expected);
      EXPECT_EQ(communicator->traffic().received - before.received, expected);
    }
    EXPECT_EQ(communicator->recorder().Calls().size() - calls,
              communicator->size() == 1 ? 0 : model.shards.parts().size());
  });
}

INSTANTIATE_TEST_SUITE_P(Small, WeightGathererTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 8), ::testing::Bool(),
                                            ::testing::Values(1)));
// These parts are so long that ranks move them in each other's memory.
INSTANTIATE_TEST_SUITE_P(Large, WeightGathererTest,
                         ::testing::Combine(::testing::Values(2, 4), ::testing::Bool(),
                                            ::testing::Values(40)));

TEST(WeightGathererPlacesTest, AUnitGoesWhenAnotherTakesItsPlace) {
  const ShardCase model(2);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto gatherer =
        WeightGatherer::Create(*communicator, model.sharded(), {.holding = Holding::kInFlight})
            .value();
    OwnWeights weights(model.shards);
    weights.Fill(model.shards, communicator->rank(), 1);
    // Other units are tied to units 0 and 5; units 1, 2, 4 and 6 take turns in two places.
    ASSERT_EQ(gatherer->places().shared_place(1), gatherer->places().shared_place(4));
    ASSERT_EQ(gatherer->places().shared_place(2), gatherer->places().shared_place(6));
    // Nobody waits for unit 1 before 4 takes its place.
    for (const int unit : {0, 1, 2, 4, 5, 1}) gatherer->Start(unit, weights.view());
    EXPECT_FALSE(gatherer->Holds(4));
    EXPECT_EQ(gatherer->Await(4).code(), absl::StatusCode::kInternal);
    for (const int unit : {0, 1, 2, 5}) {
      EXPECT_TRUE(gatherer->Holds(unit));
      ASSERT_EQ(gatherer->Await(unit), absl::OkStatus());
    }
    for (const int unit : {0, 1, 2, 5}) {
      EXPECT_EQ(WrongParameters(model, *gatherer, unit, 1), "");
    }
    gatherer->Outdate();
    EXPECT_FALSE(gatherer->Holds(0));
  });
}

TEST(WeightGathererFailureTest, ADeathEndsEveryCallOfTheOthers) {
  const ShardCase model(3);
  for (int last = 0; last < ShardCase::kUnits; ++last) {
    if (model.shards.unit_parts(last).empty()) continue;
    TestRanks ranks(3);
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      auto gatherer =
          WeightGatherer::Create(*communicator, model.sharded(), {.holding = Holding::kInFlight})
              .value();
      const OwnWeights weights(model.shards);
      for (int unit = 0; unit < last; ++unit) {
        gatherer->Start(unit, weights.view());
        ASSERT_EQ(gatherer->Await(unit), absl::OkStatus());
      }
      ranks.AwaitAll();
      if (communicator->rank() == 1) {
        ranks.Kill(1);
        return;
      }
      gatherer->Start(last, weights.view());
      const absl::Status status = gatherer->Await(last);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      // Nobody waits for the dead rank again.
      gatherer->Outdate();
      gatherer->Start(last, weights.view());
      EXPECT_EQ(gatherer->Await(last).code(), absl::StatusCode::kUnavailable);
    });
  }
}

TEST(WeightGathererFailureTest, AStepGivenUpHalfWayKeepsNobodyWaiting) {
  const ShardCase model(2);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto gatherer = WeightGatherer::Create(*communicator, model.sharded(), {}).value();
    const OwnWeights weights(model.shards);
    ranks.AwaitAll();
    gatherer->Start(0, weights.view());
    if (communicator->rank() == 1) {
      gatherer.reset();
      return;
    }
    // The other rank's first unit may have gone through; the next cannot.
    gatherer->Start(1, weights.view());
    EXPECT_FALSE(gatherer->Await(1).ok());
  });
}

TEST(WeightGathererFailureTest, ATensorThatIsTiedToRoundedOnesIsReadLikeThem) {
  std::vector<TensorSpec> tensors(2);
  tensors[0].name = "a";
  tensors[0].shape = {100};
  tensors[0].compute = DType::kBf16;
  tensors[1] = tensors[0];
  tensors[1].name = "b";
  tensors[1].tied_to = "a";
  tensors[1].compute = DType::kF32;
  const DenseLayout layout = DenseLayout::Create(tensors, {}).value();
  const ShardLayout shards(layout, 1);
  TestRanks ranks(1);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const absl::Status status =
        WeightGatherer::Create(*communicator, {layout, shards, tensors}, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("tensor b is read in f32, but it is tied to a"));
  });
}

TEST(WeightGathererFailureTest, AGroupOfAnotherSizeIsRefused) {
  const ShardCase model(3);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const absl::Status status = WeightGatherer::Create(*communicator, model.sharded(), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("2 ranks"));
  });
}

}  // namespace
}  // namespace muster
