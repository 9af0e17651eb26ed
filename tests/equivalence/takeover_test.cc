// A slot whose task died at any point is taken over by another, and nothing counts twice or is
// lost.
#include <string>

#include "common/base/philox.h"
#include "gtest/gtest.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"
#include "tests/harness/test_folder.h"

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

  const TestFolder folder_;
};

TEST_P(TakeoverTest, DeathsAtAnyHookLeaveTheSameBits) {
  const v1::JobSpec spec = Job();
  ServerRunOptions options;
  options.keys = TrainLocally(spec).keys;
  const TrainedValues undisturbed = TrainOnServers(spec, options).trained;
  ASSERT_FALSE(undisturbed.values.empty());

  const Philox random(1, "deaths", GetParam());
  for (int trial = 0; trial < 10; ++trial) {
    options.deaths.clear();
    for (int i = 0; i < 4; ++i) {
      const int draw = 4 * trial + i;
      Death death;
      death.slot = random.Below(2, draw, 0);
      // Each of a task's steps has at most a dozen hooks: most deaths fall into its first two.
      death.hooks = 1 + random.Below(20, draw, 1);
      death.takes_effect = random.Below(2, draw, 2) == 1;
      options.deaths.push_back(death);
    }
    EXPECT_EQ(TrainOnServers(spec, options).trained.values, undisturbed.values)
        << "trial " << trial;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryModel, TakeoverTest, ::testing::ValuesIn(ModelNames()));

}  // namespace
}  // namespace muster
