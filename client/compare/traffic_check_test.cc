#include "client/compare/traffic_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two workers and two servers, of which everything was foreseen.
MeasuredRun Foreseen() {
  MeasuredRun run;
  run.dense = run.predicted.workers = {{4040, 4044}, {4048, 4044}};
  run.server_sent = run.predicted.server_sent = {{"server-0", 8000}, {"server-1", 80}};
  // Rows are not predicted.
  run.workers = {{9999, 9999}, {9999, 9999}};
  return run;
}

TEST(TrafficCheckTest, WhatWasForeseenMatches) {
  const MeasuredRun run = Foreseen();
  EXPECT_TRUE(WorkersMatch(run, &WorkerTraffic::sent));
  EXPECT_TRUE(WorkersMatch(run, &WorkerTraffic::received));
  EXPECT_TRUE(ServersMatch(run));
  EXPECT_THAT(TrafficMismatches(run), IsEmpty());
}

TEST(TrafficCheckTest, AnEqualMeanIsNotEnough) {
  MeasuredRun run = Foreseen();
  run.dense[0].sent = 4048;
  run.dense[1].sent = 4040;
  EXPECT_EQ(MeanOf(run.dense), MeanOf(run.predicted.workers));
  EXPECT_FALSE(WorkersMatch(run, &WorkerTraffic::sent));
  EXPECT_TRUE(WorkersMatch(run, &WorkerTraffic::received));
  EXPECT_TRUE(ServersMatch(run));
  EXPECT_THAT(
      TrafficMismatches(run),
      ElementsAre("slot 0 sends 4,048 bytes of dense parameters a step, predicted 4,040 bytes",
                  "slot 1 sends 4,040 bytes of dense parameters a step, predicted 4,048 bytes"));
}

TEST(TrafficCheckTest, EveryProcessIsNamed) {
  MeasuredRun run = Foreseen();
  run.dense[1].received = 0.5;
  run.server_sent["server-1"] = 81;
  EXPECT_FALSE(WorkersMatch(run, &WorkerTraffic::received));
  EXPECT_FALSE(ServersMatch(run));
  EXPECT_THAT(
      TrafficMismatches(run),
      ElementsAre("slot 1 receives 0.5 bytes of dense parameters a step, predicted 4,044 bytes",
                  "server-1 sends 81 bytes of dense parameters a step, predicted 80 bytes"));
}

TEST(TrafficCheckTest, AProcessOfWhichNothingWasMeasuredIsNoMatch) {
  MeasuredRun run = Foreseen();
  run.dense.pop_back();
  run.server_sent.erase("server-0");
  EXPECT_FALSE(WorkersMatch(run, &WorkerTraffic::sent));
  EXPECT_FALSE(ServersMatch(run));
  EXPECT_THAT(
      TrafficMismatches(run),
      ElementsAre("slot 1 sends 0 bytes of dense parameters a step, predicted 4,048 bytes",
                  "slot 1 receives 0 bytes of dense parameters a step, predicted 4,044 bytes",
                  "server-0 sends 0 bytes of dense parameters a step, predicted 8,000 bytes"));
}

}  // namespace
}  // namespace muster
