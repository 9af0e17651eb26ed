#include "common/packing/packing_figures.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(PackingFiguresTest, OneDocumentFillsItsWindows) {
  const PackingFigures figures = FiguresOfStream({10}, 3);
  EXPECT_EQ(figures.windows, 3u);
  EXPECT_EQ(figures.padding, 0u);
  EXPECT_EQ(figures.squares, 27);
  EXPECT_EQ(figures.MeanDocument(3), 3);
  EXPECT_EQ(FiguresOfStream({}, 3).windows, 0u);
  EXPECT_EQ(FiguresOfStream({3}, 3).windows, 0u);
}

TEST(PackingFiguresTest, AreThoseOfEachWindow) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto context = static_cast<int64_t>(1 + random() % 9);
    std::vector<uint64_t> ends;
    for (uint64_t end = 0, i = random() % 12; i-- > 0;) ends.push_back(end += 1 + random() % 20);
    const PackingFigures figures = FiguresOfStream(ends, context);
    double squares = 0;
    size_t document = 0;
    for (uint64_t window = 0; window < figures.windows; ++window) {
      uint64_t length = 0;
      for (uint64_t token = window * context; token < (window + 1) * context; ++token) {
        ++length;
        const bool ends_here = ends[document] == token + 1;
        if (!ends_here && token + 1 < (window + 1) * context) continue;
        squares += static_cast<double>(length * length);
        length = 0;
        if (ends_here) ++document;
      }
    }
    EXPECT_EQ(figures.squares, squares) << round;
  }
}

}  // namespace
}  // namespace muster
