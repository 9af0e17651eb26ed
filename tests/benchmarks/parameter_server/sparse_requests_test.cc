#include "tests/benchmarks/parameter_server/sparse_requests.h"

#include <map>
#include <set>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(SparseRequestsTest, KeysAreDistinctAndInRangeAndTheSameAgain) {
  for (const KeyDistribution distribution :
       {KeyDistribution::kUniform, KeyDistribution::kPowerLaw}) {
    const std::vector<uint64_t> keys = DrawRequest(distribution, 1000, 5000, 3);
    EXPECT_EQ(std::set<uint64_t>(keys.begin(), keys.end()).size(), keys.size());
    for (uint64_t key : keys) EXPECT_LT(key, 1000);
    EXPECT_EQ(DrawRequest(distribution, 1000, 5000, 3), keys);
    EXPECT_NE(DrawRequest(distribution, 1000, 5000, 4), keys);
    EXPECT_EQ(*ParseKeyDistribution(Name(distribution)), distribution);
  }
  EXPECT_FALSE(ParseKeyDistribution("normal").ok());
}

TEST(SparseRequestsTest, FewKeysMakeMostOfAPowerLaw) {
  constexpr uint64_t kRows = 1000000;
  EXPECT_GT(DrawRequest(KeyDistribution::kUniform, kRows, 10000, 0).size(), 9900);
  EXPECT_LT(DrawRequest(KeyDistribution::kPowerLaw, kRows, 10000, 0).size(), 5000);
  // The most frequent key has about (1 - 2^-0.2) / (1 - 10^-1.2) of all draws.
  std::map<uint64_t, int> count;
  for (uint64_t number = 0; number < 4000; ++number) {
    ++count[DrawRequest(KeyDistribution::kPowerLaw, kRows, 1, number)[0]];
  }
  int most = 0;
  for (auto [key, times] : count) most = std::max(most, times);
  EXPECT_NEAR(most / 4000.0, 0.138, 0.025);
}

}  // namespace
}  // namespace muster
