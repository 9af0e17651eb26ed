// A slot whose task died at any point is taken over by another, and nothing counts twice or is
// lost.
#include <string>
#include <vector>

#include "common/base/philox.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

class TakeoverTest : public ::testing::TestWithParam<std::string> {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec = TinyJob(GetParam(), "adam", WriteTinyText(folder_));
    spec.mutable_stop()->set_steps(12);
    spec.mutable_update()->set_deterministic(true);
    spec.mutable_clipping()->set_by_global_norm(0.5);
    spec.mutable_checkpoint()->set_every_steps(5);
    return spec;
  }

  const TempFolder folder_;
};

// Deaths of any slot at any hook, drawn for a trial.
std::vector<Death> DrawDeaths(const std::string& model, int trial, int slots) {
  const Philox random(1, "deaths", model);
  std::vector<Death> deaths;
  for (int i = 0; i < 4; ++i) {
    const int draw = 4 * trial + i;
    Death& death = deaths.emplace_back();
    death.slot = random.Below(slots, draw, 0);
    // Each of a task's steps has at most fifteen hooks: most deaths fall into its first two.
    death.hooks = 1 + random.Below(25, draw, 1);
    death.takes_effect = random.Below(2, draw, 2) == 1;
  }
  return deaths;
}

TEST_P(TakeoverTest, DeathsAtAnyHookLeaveTheSameBits) {
  const v1::JobSpec spec = Job();
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const TrainedValues undisturbed = TrainOnServers(spec, options).trained[0];
  ASSERT_FALSE(undisturbed.values.empty());
  for (int trial = 0; trial < 10; ++trial) {
    options.deaths = DrawDeaths(GetParam(), trial, 2);
    EXPECT_EQ(TrainOnServers(spec, options).trained[0].values, undisturbed.values)
        << "trial " << trial;
  }
}

// Survivors go on in place, and give the newcomer their replica.
TEST_P(TakeoverTest, DeathsAtAnyHookLeaveTheSameBitsByAllReduce) {
  v1::JobSpec spec = Job();
  spec.set_workers(3);
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_first_bucket_bytes(64);
  spec.mutable_update()->set_bucket_bytes(500);
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const RunResult undisturbed = TrainByAllReduce(spec, options);
  EXPECT_EQ(undisturbed.rounds, 1);
  for (int trial = 0; trial < 10; ++trial) {
    SCOPED_TRACE(trial);
    options.share_memory = trial % 2 == 0;
    options.deaths = DrawDeaths(GetParam(), trial, 3);
    const RunResult run = TrainByAllReduce(spec, options);
    EXPECT_GT(run.rounds, 1);
    for (const TrainedValues& slot : run.trained) {
      EXPECT_EQ(slot.values, undisturbed.trained[0].values);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryModel, TakeoverTest, ::testing::ValuesIn(ModelNames()));

}  // namespace
}  // namespace muster
