#include "common/tables/row_sum.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RowSumTest, SumsPerKeyInOrderOfFirstAppearance) {
  RowSum sum(2);
  sum.Add({7, 5}, {1, 2, 3, 4});
  sum.Add({9, 7, 9}, {10, 20, 30, 40, 50, 60});
  EXPECT_THAT(sum.keys(), ElementsAre(7, 5, 9));
  EXPECT_THAT(sum.sums(), ElementsAre(31, 42, 3, 4, 60, 80));
}

TEST(RowSumTest, TheFirstAdditionIsTakenAsItIs) {
  RowSum sum(1);
  sum.Add({1}, {-0.0f});
  EXPECT_TRUE(std::signbit(sum.sums()[0]));
}

TEST(RowSumTest, StartsAgainWhenCleared) {
  RowSum sum(1);
  sum.Add({1, 2}, {3, 4});
  sum.Clear();
  EXPECT_THAT(sum.keys(), IsEmpty());
  EXPECT_THAT(sum.sums(), IsEmpty());
  sum.Add({2}, {5});
  EXPECT_THAT(sum.keys(), ElementsAre(2));
  EXPECT_THAT(sum.sums(), ElementsAre(5));
}

TEST(RowSumTest, SumsMayBeTaken) {
  RowSum sum(1);
  sum.Add({1, 2}, {3, 4});
  std::vector<float> taken = {9};
  sum.TakeSums(taken);
  EXPECT_THAT(taken, ElementsAre(3, 4));
  EXPECT_THAT(sum.keys(), ElementsAre(1, 2));
  sum.Clear();
  sum.Add({2}, {5});
  EXPECT_THAT(sum.sums(), ElementsAre(5));
}

}  // namespace
}  // namespace muster
