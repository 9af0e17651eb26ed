#include "worker/strategy/group/step_exchange.h"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/strategy/group/test_ranks.h"

namespace muster {
namespace {

std::vector<RowSum> RowSums(std::initializer_list<uint32_t> dims) {
  return std::vector<RowSum>(dims.begin(), dims.end());
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StepTotal Exchange(StepExchange& exchange, Communicator& communicator, const StepShare& mine,
                   absl::Span<const size_t> cells_by_rank = {}) {
  return exchange.Run(communicator, absl::Minutes(1), mine, cells_by_rank).value();
}

TEST(StepExchangeTest, BringsAllRowsTogetherInOrderOfRank) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    std::vector<RowSum> mine = RowSums({2, 1, 1});
    // Rank 1 has no rows of the first table; nobody has any of the second.
    if (rank == 0) mine[0].Add({7, 5}, {1, 2, 3, 4});
    if (rank == 2) mine[0].Add({9, 7}, {10, 20, 30, 40});
    mine[2].Add({std::numeric_limits<uint64_t>::max() - rank}, {static_cast<float>(rank)});
    StepExchange exchange({2, 1, 1});
    for (int step = 0; step < 2; ++step) {
      const StepTotal total = Exchange(
          exchange, *communicator, {.examples = 10 + static_cast<uint64_t>(rank), .rows = mine});
      EXPECT_EQ(total.examples, 33);
      EXPECT_EQ(total.overflowed, -1);
      EXPECT_THAT(total.rows[0].keys(), ElementsAre(7, 5, 9));
      EXPECT_THAT(total.rows[0].sums(), ElementsAre(31, 42, 3, 4, 10, 20));
      EXPECT_THAT(total.rows[1].keys(), IsEmpty());
      EXPECT_THAT(total.rows[2].keys(),
                  ElementsAre(~uint64_t{0}, ~uint64_t{0} - 1, ~uint64_t{0} - 2));
      EXPECT_THAT(total.rows[2].sums(), ElementsAre(0, 1, 2));
      EXPECT_THAT(total.cells, IsEmpty());
    }
  });
}

TEST(StepExchangeTest, AddsWhatRanksShareByRankAndNotBySize) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const float values[] = {1e8f, -1e8f, 1};
    std::vector<RowSum> mine = RowSums({1});
    mine[0].Add({4}, {values[communicator->rank()]});
    StepExchange exchange({1});
    const StepTotal total = Exchange(exchange, *communicator, {.examples = 1, .rows = mine});
    EXPECT_THAT(total.rows[0].sums(), ElementsAre(1));
  });
}

TEST(StepExchangeTest, AllKnowTheFirstTensorThatOverflowed) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    StepExchange exchange({});
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
    StepExchange exchange({});
    const StepTotal total = Exchange(exchange, *communicator, {.cells = cells[rank]}, {2, 0, 1});
    EXPECT_THAT(total.cells, ElementsAre(0.1, 0.2, 0.3));
  });
}

TEST(StepExchangeTest, WithoutTablesOnlyExamplesAndOverflowsTravel) {
  TestRanks ranks(2);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const uint64_t before = communicator->traffic().sent;
    StepExchange exchange({});
    EXPECT_EQ(Exchange(exchange, *communicator, {.examples = 4}).examples, 8);
    EXPECT_EQ(communicator->traffic().sent - before, 2 * sizeof(int64_t));
  });
}

TEST(StepExchangeTest, ADeadRankIsAnError) {
  TestRanks ranks(2);
  ranks.Run([&ranks](std::unique_ptr<Communicator> communicator) {
    if (communicator->rank() == 1) return ranks.Kill(1);
    StepExchange exchange({});
    EXPECT_EQ(exchange.Run(*communicator, absl::Minutes(1), {.examples = 4}, {}).status().code(),
              absl::StatusCode::kUnavailable);
  });
}

}  // namespace
}  // namespace muster
