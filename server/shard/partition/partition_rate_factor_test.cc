// The factor of the learning rate that pushes and closes bring.
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/partition_state.pb.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/partition/apply/closed_rate_factors.h"
#include "server/shard/partition/partition_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class PartitionRateFactorTest : public PartitionTest {
 protected:
  static v1::ExchangeRequest With(v1::ExchangeRequest request, double factor) {
    request.set_rate_factor(factor);
    return request;
  }

  // Pushes a gradient of ones to all that there is, at the factor, and closes the clock. Returns
  // the values of a block and a row then.
  std::vector<float> Train(uint32_t slots, uint64_t clock, double factor) {
    for (uint32_t slot = 0; slot < slots; ++slot) {
      for (uint32_t block : {0, 1}) {
        Do(With(TestDensePush(slot, clock, block, 1), factor), Floats({1, 1, 1, 1}));
      }
      Do(With(TestSparsePush(slot, clock, 0, 1), factor), KeysAndRows({5}, {1, 1}));
    }
    for (uint32_t slot = 0; slot < slots; ++slot) {
      Do(With(TestClose(slot, clock, 1), factor));
    }
    std::vector<float> values = Do(TestDensePull(0, clock + 1, 0, 1)).floats();
    const std::vector<float> row =
        Do(TestSparsePull(0, clock + 1, 1), KeysAndRows({5}, {})).floats();
    values.insert(values.end(), row.begin(), row.end());
    return values;
  }

  // Returns how far a step at the factor moves each value.
  std::vector<float> Moves(v1::OpenTablesRequest request, uint32_t slots, double factor) {
    Open(request);
    std::vector<float> before = Do(TestDensePull(0, 0, 0, 1)).floats();
    const std::vector<float> row = Do(TestSparsePull(0, 0, 1), KeysAndRows({5}, {})).floats();
    before.insert(before.end(), row.begin(), row.end());
    std::vector<float> moves = Train(slots, 0, factor);
    for (size_t i = 0; i < moves.size(); ++i) moves[i] -= before[i];
    return moves;
  }
};

TEST_F(PartitionRateFactorTest, StepsAreAsLongAsTheFactorSaysUnderEveryPolicy) {
  for (const bool synchronous : {true, false}) {
    v1::OpenTablesRequest request = TestOpenRequest(2);
    request.mutable_update()->set_unlimited_staleness(!synchronous);
    const std::vector<float> full = Moves(request, 2, 1);
    const std::vector<float> untold = Moves(request, 2, 0);
    const std::vector<float> quarter = Moves(request, 2, 0.25);
    ASSERT_EQ(full.size(), quarter.size());
    EXPECT_EQ(full, untold) << "0 stands for 1";
    for (size_t i = 0; i < full.size(); ++i) {
      EXPECT_NE(full[i], 0);
      EXPECT_NEAR(quarter[i], full[i] / 4, std::abs(full[i]) * 1e-6);
    }
  }
}

TEST_F(PartitionRateFactorTest, AClockThatIsClosedAheadKeepsItsFactor) {
  ClosedRateFactors factors;
  factors.Close(0, 1);
  EXPECT_EQ(factors.next(), 1);
  factors.Close(2, 0.5);
  v1::PartitionState state;
  factors.Save(state);
  ClosedRateFactors restored;
  restored.Restore(state);
  std::vector<double> seen;
  for (int clock = 0; clock < 4; ++clock) {
    seen.push_back(restored.next());
    restored.Complete();
  }
  EXPECT_THAT(seen, testing::ElementsAre(1, 1, 0.5, 1));
}

TEST_F(PartitionRateFactorTest, RefusesAnImpossibleFactor) {
  Open(TestOpenRequest(1));
  for (const double factor :
       {-0.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(Call(With(TestClose(0, 0, 0), factor)).reply().message(),
                HasSubstr("rate_factor is"));
  }
}

}  // namespace
}  // namespace muster
