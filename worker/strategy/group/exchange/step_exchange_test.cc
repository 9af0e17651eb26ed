#include "worker/strategy/group/exchange/step_exchange.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/strategy/group/test_ranks.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StepTotal Exchange(StepExchange& exchange, Communicator& communicator, const StepShare& mine,
                   absl::Span<const size_t> cells_by_rank = {}) {
  return exchange.Run(communicator, absl::Minutes(1), mine, cells_by_rank).value();
}

TEST(StepExchangeTest, AddsUpTheExamples) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const uint64_t examples = 10 + communicator->rank();
    StepExchange exchange;
    for (int step = 0; step < 2; ++step) {
      const StepTotal total = Exchange(exchange, *communicator, {.examples = examples});
      EXPECT_EQ(total.examples, 33);
      EXPECT_EQ(total.overflowed, -1);
      EXPECT_THAT(total.cells, IsEmpty());
    }
  });
}

TEST(StepExchangeTest, AllKnowTheFirstTensorThatOverflowed) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    StepExchange exchange;
    const int overflowed[] = {-1, 7, 3};
    StepShare mine = {.overflowed = overflowed[communicator->rank()]};
    EXPECT_EQ(Exchange(exchange, *communicator, mine).overflowed, 3);
    mine.overflowed = -1;
    EXPECT_EQ(Exchange(exchange, *communicator, mine).overflowed, -1);
  });
}

TEST(StepExchangeTest, CellsComeInOrderOfRank) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    const std::vector<std::vector<double>> cells = {{0.1, 0.2}, {}, {0.3}};
    StepExchange exchange;
    const StepTotal total = Exchange(exchange, *communicator, {.cells = cells[rank]}, {2, 0, 1});
    EXPECT_THAT(total.cells, ElementsAre(0.1, 0.2, 0.3));
  });
}

TEST(StepExchangeTest, WithoutNormsOnlyExamplesAndOverflowsTravel) {
  TestRanks ranks(2);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const uint64_t before = communicator->traffic().sent;
    StepExchange exchange;
    EXPECT_EQ(Exchange(exchange, *communicator, {.examples = 4}).examples, 8);
    EXPECT_EQ(communicator->traffic().sent - before, 2 * sizeof(int64_t));
  });
}

TEST(StepExchangeTest, ADeadRankIsAnError) {
  TestRanks ranks(2);
  ranks.Run([&ranks](std::unique_ptr<Communicator> communicator) {
    if (communicator->rank() == 1) return ranks.Kill(1);
    StepExchange exchange;
    EXPECT_EQ(exchange.Run(*communicator, absl::Minutes(1), {.examples = 4}, {}).status().code(),
              absl::StatusCode::kUnavailable);
  });
}

}  // namespace
}  // namespace muster
