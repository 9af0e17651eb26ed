// A slot whose task died at any point is taken over by another, and nothing counts twice or is
// lost.
#include <algorithm>
#include <string>
#include <vector>

#include "common/base/philox.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/dying_strategy.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

struct Trials {
  int begin;
  int end;
};
// Four have calls and registered memory with either durability.
constexpr Trials kFewTrials = {0, 4};
constexpr Trials kOtherTrials = {4, 10};

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

  void ExpectTheSameBits(Trials trials);
  void ExpectTheSameBitsWithUnitsInFlight(Trials trials);
  void ExpectTheSameBitsByAllReduce(Trials trials);

  const TempFolder folder_;
};

// Draws the deaths of a trial: of any slot, at any hook of a task's first two steps. `calls` are
// those of a task that lives.
std::vector<Death> DrawDeaths(const std::string& model, int trial, int slots,
                              const std::vector<HookCall>& calls) {
  const auto of_two_steps = std::count_if(calls.begin(), calls.end(),
                                          [](const HookCall& call) { return call.step <= 2; });
  const Philox random(1, "deaths", model);
  std::vector<Death> deaths;
  for (int i = 0; i < 4; ++i) {
    const int draw = 4 * trial + i;
    Death& death = deaths.emplace_back();
    death.slot = random.Below(slots, draw, 0);
    death.at = calls[random.Below(of_two_steps, draw, 1)];
    death.takes_effect = random.Below(2, draw, 2) == 1;
  }
  return deaths;
}

void TakeoverTest::ExpectTheSameBits(Trials trials) {
  const v1::JobSpec spec = Job();
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const RunResult undisturbed = TrainOnServers(spec, options);
  ASSERT_FALSE(undisturbed.trained[0].values.empty());
  for (int trial = trials.begin; trial < trials.end; ++trial) {
    options.deaths = DrawDeaths(GetParam(), trial, 2, undisturbed.calls[0]);
    EXPECT_EQ(TrainOnServers(spec, options).trained[0].values, undisturbed.trained[0].values)
        << "trial " << trial;
  }
}

TEST_P(TakeoverTest, DeathsAtAnyHookLeaveTheSameBits) { ExpectTheSameBits(kFewTrials); }

TEST_P(TakeoverTest, DeathsAtAnyHookLeaveTheSameBitsExhaustive) { ExpectTheSameBits(kOtherTrials); }

// Under ZeRO stage 3, a dead task leaves some micro-batches of a step whole, the next in part.
void TakeoverTest::ExpectTheSameBitsWithUnitsInFlight(Trials trials) {
  v1::JobSpec spec = Job();
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_parallelism()->mutable_zero()->set_stage(3);
  spec.set_micro_batches(3);
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const RunResult undisturbed = TrainOnServers(spec, options);
  ASSERT_FALSE(undisturbed.trained[0].values.empty());
  for (int trial = trials.begin; trial < trials.end; ++trial) {
    options.reach = trial % 2 == 0 ? Reach::kCalls : Reach::kRegisteredMemory;
    spec.mutable_update()->set_durability(trial % 3 == 0 ? v1::UpdateSpec::EVERY_PUSH
                                                         : v1::UpdateSpec::CHECKPOINT);
    options.deaths = DrawDeaths(GetParam(), trial, 2, undisturbed.calls[0]);
    EXPECT_EQ(TrainOnServers(spec, options).trained[0].values, undisturbed.trained[0].values)
        << "trial " << trial;
  }
}

TEST_P(TakeoverTest, DeathsAtAnyHookLeaveTheSameBitsWithUnitsInFlight) {
  ExpectTheSameBitsWithUnitsInFlight(kFewTrials);
}

TEST_P(TakeoverTest, DeathsAtAnyHookLeaveTheSameBitsWithUnitsInFlightExhaustive) {
  ExpectTheSameBitsWithUnitsInFlight(kOtherTrials);
}

// Survivors go on in place, and give the newcomer their replica.
void TakeoverTest::ExpectTheSameBitsByAllReduce(Trials trials) {
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
  for (int trial = trials.begin; trial < trials.end; ++trial) {
    SCOPED_TRACE(trial);
    options.share_memory = trial % 2 == 0;
    options.deaths = DrawDeaths(GetParam(), trial, 3, undisturbed.calls[0]);
    const RunResult run = TrainByAllReduce(spec, options);
    EXPECT_GT(run.rounds, 1);
    for (const TrainedValues& slot : run.trained) {
      EXPECT_EQ(slot.values, undisturbed.trained[0].values);
    }
  }
}

TEST_P(TakeoverTest, DeathsAtAnyHookLeaveTheSameBitsByAllReduce) {
  ExpectTheSameBitsByAllReduce(kFewTrials);
}

TEST_P(TakeoverTest, DeathsAtAnyHookLeaveTheSameBitsByAllReduceExhaustive) {
  ExpectTheSameBitsByAllReduce(kOtherTrials);
}

INSTANTIATE_TEST_SUITE_P(EveryModel, TakeoverTest, ::testing::ValuesIn(ModelNames()));

}  // namespace
}  // namespace muster
