#include "common/plan/size/distinct_rows.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(DistinctRowsTest, CountsEachLookUpWhereNothingIsKnown) {
  ModelSize model;
  model.lookups = 4;
  model.rows = 100;
  EXPECT_EQ(DistinctRows(model, {}, 10), 40u);
  EXPECT_EQ(DistinctRows(model, {}, 1000), 100u);
  EXPECT_EQ(DistinctRows(model, {}, uint64_t{1} << 62), 100u);
}

TEST(DistinctRowsTest, IsTheExpectationOfThePowerLaw) {
  ModelSize model;
  model.lookups = 3;
  DataSize data;
  data.fields = 3;
  data.cardinality = 5000;
  for (const int draws : {1, 100, 20000}) {
    double expected = 0;
    for (int v = 0; v < 5000; ++v) {
      const double p = std::log((v + 2.0) / (v + 1.0)) / std::log(5001.0);
      expected += 1 - std::pow(1 - p, draws);
    }
    EXPECT_NEAR(DistinctRows(model, data, draws), 3 * expected, 0.01 * 3 * expected + 1) << draws;
  }
  // No more than the examples there are.
  data.examples = 100;
  EXPECT_EQ(DistinctRows(model, data, 1000), DistinctRows(model, data, 100));
}

TEST(DistinctRowsTest, IsTheExpectationOfDrawsFromATextThatWasLookedAt) {
  ModelSize model;
  model.lookups = 2;
  model.rows = 1000;
  DataSize data;
  data.vocabulary = 256;
  // abcabcabd.
  data.repeats = {{{1, 1}, {2, 1}, {3, 2}}, {{1, 1}, {2, 2}, {3, 1}}};
  EXPECT_EQ(DistinctRows(model, data, 9), 8u);
  model.rows = 5;
  EXPECT_EQ(DistinctRows(model, data, 9), 5u);
}

TEST(DistinctRowsTest, GrowsByHeapsLawBeyondTheTextThatWasLookedAt) {
  ModelSize model;
  model.lookups = 1;
  model.rows = 1 << 20;
  DataSize data;
  data.vocabulary = 256;
  // All different: as many as there are draws.
  data.repeats = {{{1, 1000}}};
  EXPECT_NEAR(DistinctRows(model, data, 4000), 4000, 1);
  EXPECT_NEAR(DistinctRows(model, data, 400), 400, 1);
  // Every position is drawn once an epoch.
  data.examples = 2000;
  EXPECT_NEAR(DistinctRows(model, data, 4000), 2000, 1);
  data.examples = 0;
  // Few that come often: no more of them.
  data.repeats = {{{100, 10}}};
  EXPECT_NEAR(DistinctRows(model, data, 4000), 10, 1);
}

TEST(DistinctRowsTest, IsBounded) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  ModelSize model;
  model.lookups = model.rows = kMost;
  EXPECT_EQ(DistinctRows(model, {}, kMost), kMostRows);
  DataSize data;
  data.fields = 1 << 20;
  data.cardinality = kMost;
  EXPECT_EQ(DistinctRows(model, data, kMost), kMostRows);
}

TEST(DistinctRowsTest, TextHasFewerStringsThanBytes) {
  ModelSize model;
  model.lookups = 4;
  model.rows = 1 << 20;
  DataSize data;
  data.vocabulary = 256;
  EXPECT_LT(DistinctRows(model, data, 10000), 20000u);
  EXPECT_GT(DistinctRows(model, data, 1000000), DistinctRows(model, data, 10000));
  model.rows = 500;
  EXPECT_EQ(DistinctRows(model, data, 1000000), 500u);
}

}  // namespace
}  // namespace muster
