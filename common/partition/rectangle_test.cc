#include "common/partition/rectangle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Intervals = std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>;

Intervals IntervalsOf(const std::vector<int64_t>& shape, const std::vector<int64_t>& start,
                      const std::vector<int64_t>& extent, uint64_t begin, uint64_t end) {
  Intervals intervals;
  ForEachContiguous(shape, start, extent, begin, end,
                    [&intervals](uint64_t first, uint64_t global, uint64_t count) {
                      intervals.emplace_back(first, global, count);
                    });
  return intervals;
}

TEST(RectangleTest, ExampleOfTheHeader) {
  EXPECT_THAT(IntervalsOf({4, 5}, {1, 2}, {2, 3}, 0, 6),
              ElementsAre(std::tuple(0, 7, 3), std::tuple(3, 12, 3)));
}

TEST(RectangleTest, PartOfAnInterval) {
  EXPECT_THAT(IntervalsOf({4, 5}, {1, 2}, {2, 3}, 1, 4),
              ElementsAre(std::tuple(1, 8, 2), std::tuple(3, 12, 1)));
  EXPECT_THAT(IntervalsOf({4, 5}, {1, 2}, {2, 3}, 2, 2), IsEmpty());
}

TEST(RectangleTest, WholeDimensionsJoinIntoOneInterval) {
  EXPECT_THAT(IntervalsOf({3, 4, 5}, {1, 0, 0}, {2, 4, 5}, 0, 40),
              ElementsAre(std::tuple(0, 20, 40)));
  EXPECT_THAT(IntervalsOf({3, 4, 5}, {0, 1, 0}, {3, 2, 5}, 0, 30),
              ElementsAre(std::tuple(0, 5, 10), std::tuple(10, 25, 10), std::tuple(20, 45, 10)));
}

TEST(RectangleTest, EmptyStandsForTheWhole) {
  EXPECT_THAT(IntervalsOf({4, 5}, {}, {}, 3, 17), ElementsAre(std::tuple(3, 3, 14)));
  EXPECT_THAT(IntervalsOf({}, {}, {}, 0, 1), ElementsAre(std::tuple(0, 0, 1)));
}

// Against the definition, element by element.
TEST(RectangleTest, MatchesDefinitionForEveryRectangle) {
  const std::vector<int64_t> shape = {2, 3, 4};
  for (int64_t s0 = 0; s0 < 2; ++s0)
    for (int64_t s1 = 0; s1 < 3; ++s1)
      for (int64_t s2 = 0; s2 < 4; ++s2)
        for (int64_t e0 = 1; e0 <= 2 - s0; ++e0)
          for (int64_t e1 = 1; e1 <= 3 - s1; ++e1)
            for (int64_t e2 = 1; e2 <= 4 - s2; ++e2) {
              std::vector<uint64_t> expected;
              for (int64_t i = s0; i < s0 + e0; ++i)
                for (int64_t j = s1; j < s1 + e1; ++j)
                  for (int64_t k = s2; k < s2 + e2; ++k) expected.push_back((i * 3 + j) * 4 + k);
              std::vector<uint64_t> actual;
              for (const auto& [first, global, count] :
                   IntervalsOf(shape, {s0, s1, s2}, {e0, e1, e2}, 0, expected.size())) {
                ASSERT_EQ(first, actual.size());
                for (uint64_t i = 0; i < count; ++i) actual.push_back(global + i);
              }
              ASSERT_EQ(actual, expected);
            }
}

TEST(RectangleTest, IsRectangleOf) {
  EXPECT_TRUE(IsRectangleOf({4, 5}, {1, 2}, {3, 3}, 9));
  EXPECT_FALSE(IsRectangleOf({4, 5}, {1, 2}, {3, 3}, 10));
  EXPECT_FALSE(IsRectangleOf({4, 5}, {2, 2}, {3, 3}, 9));
  EXPECT_FALSE(IsRectangleOf({4, 5}, {-1, 0}, {1, 1}, 1));
  EXPECT_FALSE(IsRectangleOf({4, 5}, {0}, {4}, 1));
  EXPECT_TRUE(IsRectangleOf({4, 5}, {}, {}, 20));
  EXPECT_FALSE(IsRectangleOf({4, 5}, {}, {}, 21));
  EXPECT_TRUE(IsRectangleOf({}, {}, {}, 1));
}

}  // namespace
}  // namespace muster
