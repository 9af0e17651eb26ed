// A rate whose factor changes while a job runs makes the same steps on every road, whoever is lost.
#include <string>
#include <utility>
#include <vector>

#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "proto/adjustment.pb.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

Adjustments ChangesOfTheRate() {
  google::protobuf::RepeatedPtrField<v1::Adjustment> decided;
  for (const auto& [clock, factor] : {std::pair(4, 0.25), std::pair(9, 3.0)}) {
    v1::Adjustment& added = *decided.Add();
    added.set_clock(clock);
    added.set_rate_factor(factor);
  }
  return Adjustments(decided);
}

class AdjustedTrainingTest : public ::testing::TestWithParam<std::string> {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec = TinyJob(GetParam(), "adam", WriteTinyText(folder_));
    spec.mutable_stop()->set_steps(12);
    spec.mutable_update()->set_deterministic(true);
    spec.mutable_clipping()->set_by_global_norm(0.5);
    return spec;
  }

  const TempFolder folder_;
};

TEST_P(AdjustedTrainingTest, EveryRoadTakesTheStepsOfOneProcess) {
  const v1::JobSpec spec = Job();
  RunOptions options;
  const TrainedValues unadjusted = TrainAlone(spec, options).trained[0];
  options.adjustments = ChangesOfTheRate();
  const TrainedValues alone = TrainAlone(spec, options).trained[0];
  EXPECT_NE(alone.values, unadjusted.values);
  options.keys = alone.keys;
  ExpectClose(TrainOnServers(spec, options).trained[0], alone, 1e-5);
  v1::JobSpec by_all_reduce = ByAllReduceInSmallBuckets(spec);
  ExpectClose(TrainByAllReduce(by_all_reduce, options).trained[0], alone, 1e-5);
  by_all_reduce.mutable_parallelism()->mutable_zero()->set_stage(1);
  ExpectClose(TrainByAllReduce(by_all_reduce, options).trained[0], alone, 1e-5);
}

TEST_P(AdjustedTrainingTest, ATaskThatTakesOverLeavesTheSameBits) {
  for (const bool clips : {true, false}) {
    v1::JobSpec spec = Job();
    if (!clips) spec.clear_clipping();
    RunOptions options;
    options.adjustments = ChangesOfTheRate();
    options.keys = TrainAlone(spec, options).trained[0].keys;
    const RunResult undisturbed = TrainOnServers(spec, options);
    // In the middle of the step that begins with another factor.
    for (const bool takes_effect : {false, true}) {
      options.deaths = {
          {.slot = 1, .at = {.hook = Hook::kEndStep, .step = 5}, .takes_effect = takes_effect}};
      EXPECT_EQ(TrainOnServers(spec, options).trained[0].values, undisturbed.trained[0].values);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutRows, AdjustedTrainingTest,
                         ::testing::Values("mlp", "deep_fm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace muster
