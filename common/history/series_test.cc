#include "common/history/series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "common/history/series_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/metrics.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::vector<std::pair<uint64_t, uint64_t>> Spans(const Series& series) {
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (const SeriesPoint& point : series.points()) {
    spans.push_back({point.first_step, point.last_step});
  }
  return spans;
}

// All values that a series took and that were not cut, by step.
using Model = std::map<uint64_t, double>;

void ExpectShows(const Model& model, const Series& series) {
  auto it = model.begin();
  for (const SeriesPoint& point : series.points()) {
    ASSERT_NE(it, model.end());
    ASSERT_EQ(point.first_step, it->first);
    uint64_t values = 0;
    double min = it->second, max = it->second, sum = 0, last = 0;
    for (; it != model.end() && it->first <= point.last_step; ++it, ++values) {
      min = std::min(min, it->second);
      max = std::max(max, it->second);
      sum += it->second;
      last = it->second;
    }
    ASSERT_EQ(point.last_step, std::prev(it)->first);
    ASSERT_EQ(point.values, values);
    ASSERT_EQ(point.min, min);
    ASSERT_EQ(point.max, max);
    ASSERT_EQ(point.last, last);
    ASSERT_NEAR(point.mean, sum / values, 1e-9);
  }
  ASSERT_EQ(it, model.end());
}

TEST(SeriesTest, KeepsEachStepUntilThereAreTooMany) {
  Series series(16);
  for (uint64_t step = 1; step <= 16; ++step) EXPECT_TRUE(series.Add(OneValue(step, step), {}));
  EXPECT_EQ(series.points().size(), 16);
  EXPECT_EQ(series.level(), 0);
  EXPECT_TRUE(series.Add(OneValue(17, 17), {}));
  EXPECT_EQ(series.level(), 1);
  EXPECT_THAT(Spans(series), ElementsAre(std::pair(1, 2), std::pair(3, 4), std::pair(5, 6),
                                         std::pair(7, 8), std::pair(9, 10), std::pair(11, 12),
                                         std::pair(13, 14), std::pair(15, 16), std::pair(17, 17)));
  EXPECT_EQ(series.points()[3].mean, 7.5);
}

TEST(SeriesTest, Step0IsAPointOfItsOwn) {
  Series series(16);
  for (uint64_t step = 0; step < 1000; ++step) EXPECT_TRUE(series.Add(OneValue(step, step), {}));
  EXPECT_EQ(series.points()[0].last_step, 0);
  series.Thin(2);
  EXPECT_THAT(Spans(series), ElementsAre(std::pair(0, 0), std::pair(1, 999)));
}

TEST(SeriesTest, TakesNoStepTwice) {
  Series series(16);
  EXPECT_TRUE(series.Add(OneValue(5, 1), {}));
  EXPECT_FALSE(series.Add(OneValue(5, 2), {}));
  EXPECT_FALSE(series.Add(OneValue(4, 2), {}));
  EXPECT_FALSE(series.Add(Joined(OneValue(5, 1), OneValue(6, 1)), {}));
  EXPECT_TRUE(series.Add(OneValue(6, 2), {}));
  series.CutAfter(5);
  EXPECT_FALSE(series.Add(OneValue(5, 2), {}));
  EXPECT_TRUE(series.Add(OneValue(6, 3), {}));
  EXPECT_EQ(series.points().back().last, 3);
}

TEST(SeriesTest, TakesNothingThatIsNoPoint) {
  Series series(16);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (double value : {nan, inf, -inf}) EXPECT_FALSE(series.Add(OneValue(1, value), {}));
  EXPECT_FALSE(series.Add(OneValue(uint64_t{1} << 60, 1), {}));
  for (SeriesPoint point : {
           SeriesPoint{.first_step = 2, .last_step = 1},
           SeriesPoint{.first_step = 1, .last_step = 2, .values = 3},
           SeriesPoint{.first_step = 1, .last_step = 2, .values = 0},
           SeriesPoint{.first_step = 1, .last_step = 2, .min = 1},
           SeriesPoint{.first_step = 1, .last_step = 2, .mean = nan},
           SeriesPoint{.first_step = 1, .last_step = 2, .last = 1},
       }) {
    EXPECT_FALSE(series.Add(point, {}));
  }
  EXPECT_FALSE(series.changed());
  // Means of the largest numbers stay finite.
  const double most = std::numeric_limits<double>::max();
  for (uint64_t step = 1; step <= 1000; ++step) {
    EXPECT_TRUE(series.Add(OneValue(step, step % 2 == 0 ? most : -most), {}));
  }
  for (const SeriesPoint& point : series.points()) EXPECT_TRUE(std::isfinite(point.mean));
}

TEST(SeriesTest, BoundariesLieBetweenTheStepsOfAClockAndTheNext) {
  const Boundaries kept{.clocks = {10, 20}};
  EXPECT_TRUE(kept.Separate(10, 11, 30));
  EXPECT_TRUE(kept.Separate(9, 30, 30));
  EXPECT_FALSE(kept.Separate(11, 20, 30));
  EXPECT_FALSE(kept.Separate(21, 30, 30));
  const Boundaries coming{.every = 10};
  EXPECT_TRUE(coming.Separate(10, 11, 11));
  EXPECT_FALSE(coming.Separate(11, 20, 20));
  EXPECT_TRUE(coming.Separate(70, 71, 100));
  EXPECT_FALSE(coming.Separate(60, 61, 100));
  EXPECT_TRUE(coming.Separate(1, 100, 100));
  const Boundaries never{.every = std::numeric_limits<uint64_t>::max()};
  EXPECT_FALSE(never.Separate(5, 6, 6));
}

TEST(SeriesTest, MoreBoundariesThanPointsLeaveRoom) {
  Boundaries boundaries{.every = 1};
  Series series(16);
  for (uint64_t step = 1; step <= 10'000; ++step) {
    boundaries.clocks.push_back(step);
    ASSERT_TRUE(series.Add(OneValue(step, step), boundaries));
    ASSERT_LE(series.points().size(), 16);
  }
  // The last checkpoints count.
  series.CutAfter(9'998);
  EXPECT_EQ(series.last_step(), 9'998);
}

TEST(SeriesTest, PointsSurviveTheirMessage) {
  for (const SeriesPoint& point :
       {OneValue(3, 0.0, 7), OneValue(3, -1.5), Joined(OneValue(1, -2.0), OneValue(5, 2.0, 9))}) {
    v1::SeriesPoint message;
    ToProto(point, message);
    EXPECT_EQ(FromProto(message), point);
  }
}

// A job that trains, keeps two checkpoints, goes back to one now and then, and reports steps again.
void RunRandomHistory(uint32_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto draw = [&random](uint64_t below) { return random() % below; };
  const size_t most = 16 << draw(3);
  Series series(most);
  Boundaries boundaries{.every = 1 + draw(200)};
  const uint64_t stride = 1 + draw(3);
  Model model;
  uint64_t step = draw(2);
  for (int round = 0; round < 3000; ++round) {
    const uint64_t what = draw(100);
    if (what < 70) {
      SeriesPoint point;
      const uint64_t first = step;
      for (uint64_t values = 1 + draw(what < 60 ? 1 : 9); values > 0; --values) {
        const double value = static_cast<double>(draw(1000)) - 500;
        point = step == first ? OneValue(step, value) : Joined(point, OneValue(step, value));
        model[step] = value;
        ++step;
        // A point that comes in does not span a checkpoint either.
        if ((step - 1) % boundaries.every == 0) break;
      }
      ASSERT_TRUE(series.Add(point, boundaries));
      step += stride - 1;
    } else if (what < 85) {
      // Some of it again.
      const auto last = series.last_step();
      if (last.has_value())
        ASSERT_FALSE(series.Add(OneValue(*last - draw(*last + 1), 1e6), boundaries));
    } else if (what < 97) {
      const uint64_t last = step == 0 ? 0 : (step - 1) / boundaries.every * boundaries.every;
      if (last > 0 && (boundaries.clocks.empty() || boundaries.clocks.back() < last)) {
        boundaries.clocks.push_back(last);
        if (boundaries.clocks.size() > 2) boundaries.clocks.erase(boundaries.clocks.begin());
      }
    } else if (!boundaries.clocks.empty()) {
      const uint64_t clock = boundaries.clocks[draw(boundaries.clocks.size())];
      std::erase_if(boundaries.clocks, [clock](uint64_t c) { return c > clock; });
      series.CutAfter(clock);
      model.erase(model.upper_bound(clock), model.end());
      step = clock + 1;
    }
    ASSERT_LE(series.points().size(), most);
    if (round % 20 == 0) ASSERT_NO_FATAL_FAILURE(ExpectShows(model, series));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectShows(model, series));
  // A series says what changed since it was last asked.
  const std::vector<SeriesPoint> before(series.points().begin(), series.points().end());
  series.ForgetChanges();
  for (int i = 0; i < 40; ++i, ++step) series.Add(OneValue(step, 1), boundaries);
  Series copy(most);
  copy.Replace(0, 0, before);
  copy.Replace(series.unchanged(), series.level(), series.points().subspan(series.unchanged()));
  EXPECT_TRUE(std::equal(copy.points().begin(), copy.points().end(), series.points().begin(),
                         series.points().end()));
  series.Thin(8);
  EXPECT_LE(series.points().size(), 8);
}

TEST(SeriesTest, ShowsWhatWasReportedWhateverHappens) {
  for (uint32_t seed = 1; seed <= 100; ++seed) ASSERT_NO_FATAL_FAILURE(RunRandomHistory(seed));
}

TEST(SeriesTest, ResolutionFollowsTheNumberOfSteps) {
  Series series(4096);
  const Boundaries boundaries{.every = 1000};
  for (uint64_t step = 1; step <= 10'000'000; ++step) {
    ASSERT_TRUE(series.Add(OneValue(step, step == 4'567'891 ? 1e3 : 1), boundaries));
  }
  EXPECT_LE(series.points().size(), 4096);
  EXPECT_GE(series.points().size(), 1024);
  const auto spike =
      std::max_element(series.points().begin(), series.points().end(),
                       [](const SeriesPoint& a, const SeriesPoint& b) { return a.max < b.max; });
  EXPECT_EQ(spike->max, 1e3);
  EXPECT_LE(spike->first_step, 4'567'891);
  EXPECT_GE(spike->last_step, 4'567'891);
}

}  // namespace
}  // namespace muster
