#include "worker/strategy/group/row_exchange.h"

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

TEST(RowExchangeTest, BringsAllRowsTogetherInOrderOfRank) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    std::vector<RowSum> mine = RowSums({2, 1, 1});
    // Rank 1 has no rows of the first table; nobody has any of the second.
    if (rank == 0) mine[0].Add({7, 5}, {1, 2, 3, 4});
    if (rank == 2) mine[0].Add({9, 7}, {10, 20, 30, 40});
    mine[2].Add({std::numeric_limits<uint64_t>::max() - rank}, {static_cast<float>(rank)});
    std::vector<RowSum> sums = RowSums({2, 1, 1});
    sums[1].Add({1}, {1});
    RowExchange exchange;
    for (int step = 0; step < 2; ++step) {
      absl::StatusOr<uint64_t> examples =
          exchange.Run(*communicator, absl::Minutes(1), 10 + rank, mine, absl::MakeSpan(sums));
      ASSERT_EQ(examples.status(), absl::OkStatus());
      EXPECT_EQ(*examples, 33);
      EXPECT_THAT(sums[0].keys(), ElementsAre(7, 5, 9));
      EXPECT_THAT(sums[0].sums(), ElementsAre(31, 42, 3, 4, 10, 20));
      EXPECT_THAT(sums[1].keys(), IsEmpty());
      EXPECT_THAT(sums[2].keys(), ElementsAre(~uint64_t{0}, ~uint64_t{0} - 1, ~uint64_t{0} - 2));
      EXPECT_THAT(sums[2].sums(), ElementsAre(0, 1, 2));
    }
  });
}

TEST(RowExchangeTest, AddsWhatRanksShareByRankAndNotBySize) {
  TestRanks ranks(3);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const float values[] = {1e8f, -1e8f, 1};
    std::vector<RowSum> mine = RowSums({1}), sums = RowSums({1});
    mine[0].Add({4}, {values[communicator->rank()]});
    RowExchange exchange;
    ASSERT_TRUE(exchange.Run(*communicator, absl::Minutes(1), 1, mine, absl::MakeSpan(sums)).ok());
    EXPECT_THAT(sums[0].sums(), ElementsAre(1));
  });
}

TEST(RowExchangeTest, WithoutTablesOnlyExamplesTravel) {
  TestRanks ranks(2);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    const uint64_t before = communicator->traffic().sent;
    RowExchange exchange;
    EXPECT_EQ(exchange.Run(*communicator, absl::Minutes(1), 4, {}, {}).value(), 8);
    EXPECT_EQ(communicator->traffic().sent - before, sizeof(int64_t));
  });
}

TEST(RowExchangeTest, ADeadRankIsAnError) {
  TestRanks ranks(2);
  ranks.Run([&ranks](std::unique_ptr<Communicator> communicator) {
    if (communicator->rank() == 1) return ranks.Kill(1);
    RowExchange exchange;
    EXPECT_EQ(exchange.Run(*communicator, absl::Minutes(1), 4, {}, {}).status().code(),
              absl::StatusCode::kUnavailable);
  });
}

}  // namespace
}  // namespace muster
