#include "worker/strategy/group/exchange/array_exchange.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/ranks_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAreArray;

// Rank r sends rank t (r + t) mod 3 elements, each 10 r + t.
TEST(ArrayExchangeTest, ArraysComeInOrderOfRank) {
  constexpr int kRanks = 3;
  TestRanks ranks(kRanks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    const ArrayExchange exchange = {*communicator, absl::Minutes(1)};
    std::vector<int64_t> sent, received;
    std::vector<float> values, expected, came = {-1, -1, -1, -1, -1};
    for (int other = 0; other < kRanks; ++other) {
      const int64_t both = (rank + other) % kRanks;
      sent.push_back(both);
      values.insert(values.end(), both, 10.0f * rank + other);
      expected.insert(expected.end(), both, 10.0f * other + rank);
    }
    ASSERT_TRUE(exchange.Numbers(sent, received, "numbers").ok());
    EXPECT_THAT(received, ElementsAreArray(sent));
    const std::vector<size_t> send_counts(sent.begin(), sent.end());
    const std::vector<size_t> counts(received.begin(), received.end());
    ASSERT_TRUE(exchange.Arrays(values, send_counts, came, counts, "values").ok());
    EXPECT_THAT(came, ElementsAreArray(expected));
  });
}

}  // namespace
}  // namespace muster
