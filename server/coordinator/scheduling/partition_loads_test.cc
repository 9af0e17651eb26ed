#include "server/coordinator/scheduling/partition_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace muster {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class PartitionLoadsTest : public ::testing::Test {
 protected:
  // The server tells of one partition of job j1 with this sum.
  void Tell(double busy_seconds, uint64_t incarnation = 1, uint32_t partition = 0,
            uint64_t generation = 1) {
    v1::HeartbeatRequest request;
    request.set_id("s0");
    request.set_incarnation(incarnation);
    v1::PartitionLoad& load = *request.add_partition_loads();
    load.set_job_id("j1");
    load.set_generation(generation);
    load.set_partition(partition);
    load.set_busy_seconds(busy_seconds);
    loads_.Take(request, now_);
  }

  // Tells each second for `seconds` that the partition kept `cores` busy.
  void Run(int seconds, double cores) {
    for (int i = 0; i < seconds; ++i) {
      now_ += absl::Seconds(1);
      sum_ += cores;
      Tell(sum_);
    }
  }

  bool Measure() { return loads_.Measure("s0", now_, cores_); }

  absl::Duration now_ = absl::Seconds(1000);
  double sum_ = 5;
  PartitionLoads loads_;
  PartitionLoads::Cores cores_;
};

TEST_F(PartitionLoadsTest, MeasuresTheLastWindow) {
  Tell(sum_);
  Run(29, 0.5);
  EXPECT_FALSE(Measure()) << "held for less than the window";
  Run(1, 0.5);
  ASSERT_TRUE(Measure());
  EXPECT_THAT(cores_, ElementsAre(Pair(Pair("j1", 0), DoubleNear(0.5, 1e-9))));
  Run(15, 1.5);
  ASSERT_TRUE(Measure());
  EXPECT_THAT(cores_, ElementsAre(Pair(Pair("j1", 0), DoubleNear(1, 1e-9))));
  Run(60, 0.25);
  ASSERT_TRUE(Measure());
  EXPECT_THAT(cores_, ElementsAre(Pair(Pair("j1", 0), DoubleNear(0.25, 1e-9))));
}

TEST_F(PartitionLoadsTest, WhatCountsAnewIsMeasuredAnew) {
  for (const bool by_generation : {false, true}) {
    SCOPED_TRACE(by_generation);
    Tell(sum_);
    Run(40, 0.5);
    ASSERT_TRUE(Measure());
    by_generation ? Tell(sum_, 1, 0, /*generation=*/2) : Tell(0.1, /*incarnation=*/2);
    EXPECT_FALSE(Measure());
  }
  Tell(sum_);
  Run(40, 0.5);
  ASSERT_TRUE(Measure());
  Tell(0.1);
  EXPECT_FALSE(Measure()) << "it came back from another server";
}

TEST_F(PartitionLoadsTest, SilentAndUnknownServersAreNotMeasured) {
  EXPECT_FALSE(Measure());
  Tell(sum_);
  Run(40, 0.5);
  ASSERT_TRUE(Measure());
  now_ += absl::Seconds(11);
  EXPECT_FALSE(Measure());
  Run(1, 0.5);
  EXPECT_TRUE(Measure());
  loads_.Forget("s0");
  EXPECT_FALSE(Measure());
}

TEST_F(PartitionLoadsTest, PartitionsThatAreGoneAndSumsThatAreNoneAreLeftOut) {
  Tell(sum_);
  Run(40, 0.5);
  Tell(std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(Measure());
  EXPECT_THAT(cores_, IsEmpty());
}

}  // namespace
}  // namespace muster
