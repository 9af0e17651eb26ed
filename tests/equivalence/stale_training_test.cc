// SSP and ASP: the parameters that a step reads miss at most as many clocks as the job allows, and
// training learns.
#include <algorithm>
#include <string>

#include "gtest/gtest.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

v1::JobSpec StaleJob() {
  v1::JobSpec spec = TinyJob("mlp", "sgd", "");
  spec.mutable_optimizer()->set_learning_rate(0.2);
  spec.mutable_data()->set_holdout(0.3);
  spec.mutable_stop()->set_steps(100);
  spec.mutable_evaluation()->set_every_steps(40);
  spec.mutable_checkpoint()->set_every_steps(30);
  spec.set_workers(3);
  return spec;
}

uint64_t MaxStaleness(const RunResult& run) {
  uint64_t staleness = 0;
  for (const StrategyCounters& slot : run.counters) {
    staleness = std::max(staleness, slot.staleness_max);
  }
  return staleness;
}

double Accuracy(const RunResult& run) {
  EXPECT_EQ(run.evaluated, 90);
  return static_cast<double>(run.correct) / run.evaluated;
}

class StaleTrainingTest : public ::testing::TestWithParam<int> {};

TEST_P(StaleTrainingTest, NeverExceedsTheBoundAndLearns) {
  v1::JobSpec spec = StaleJob();
  const RunResult synchronous = TrainOnServers(spec, {});
  EXPECT_EQ(MaxStaleness(synchronous), 0);
  EXPECT_GT(Accuracy(synchronous), 0.8);

  spec.mutable_update()->set_staleness_bound(GetParam());
  const RunResult stale = TrainOnServers(spec, {});
  EXPECT_LE(MaxStaleness(stale), GetParam());
  EXPECT_GT(Accuracy(stale), Accuracy(synchronous) - 0.1);
}

INSTANTIATE_TEST_SUITE_P(Bounds, StaleTrainingTest, ::testing::Values(1, 4));

TEST(AsynchronousTrainingTest, Learns) {
  v1::JobSpec spec = StaleJob();
  spec.mutable_update()->set_unlimited_staleness(true);
  EXPECT_GT(Accuracy(TrainOnServers(spec, {})), 0.7);
}

}  // namespace
}  // namespace muster
