#include "server/coordinator/job/adjust_gatherer.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

v1::AdjustRequest RequestOf(uint32_t slot, uint64_t clock) {
  v1::AdjustRequest request;
  request.mutable_task()->set_slot(slot);
  request.set_clock(clock);
  return request;
}

TEST(AdjustGathererTest, WaitsForAllSlotsAtOneClock) {
  AdjustGatherer gatherer;
  EXPECT_FALSE(gatherer.any());
  gatherer.Add(RequestOf(1, 10));
  gatherer.Add(RequestOf(1, 10));
  EXPECT_FALSE(gatherer.complete(2));
  gatherer.Add(RequestOf(0, 10));
  EXPECT_TRUE(gatherer.complete(2));
  EXPECT_EQ(gatherer.clock(), 10u);
  gatherer.Forget(1);
  EXPECT_FALSE(gatherer.complete(2));
}

TEST(AdjustGathererTest, AnotherClockBeginsAnew) {
  AdjustGatherer gatherer;
  gatherer.Add(RequestOf(0, 10));
  gatherer.Add(RequestOf(1, 20));
  EXPECT_FALSE(gatherer.complete(2));
  EXPECT_EQ(gatherer.clock(), 20u);
}

TEST(AdjustGathererTest, TakesTheNoiseScaleOfWhoKnowsIt) {
  AdjustGatherer gatherer;
  gatherer.Add(RequestOf(0, 10));
  EXPECT_FALSE(gatherer.noise_scale().has_value());
  v1::AdjustRequest knows = RequestOf(1, 10);
  knows.set_noise_scale(64);
  gatherer.Add(knows);
  EXPECT_EQ(gatherer.noise_scale(), 64);
}

}  // namespace
}  // namespace muster
