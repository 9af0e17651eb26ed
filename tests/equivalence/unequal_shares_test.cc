// A job whose data ranks take unequal shares of each step trains as one process does, on either
// road and every mesh, whoever is lost; and what was decided while it ran can be asked for.
#include <cstdint>
#include <string>
#include <vector>

#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "proto/adjustment.pb.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

// Shares from steps 0, 4 and 9 on, the last of which are equal again.
v1::JobSpec WithShares(v1::JobSpec spec, uint32_t data_ranks) {
  spec.mutable_stop()->set_steps(12);
  for (const auto& [step, first] : {std::pair<uint64_t, uint32_t>(0, 7), {4, 1}, {9, 3}}) {
    v1::ShareChange& change = *spec.add_share_changes();
    change.set_step(step);
    change.add_shares(first);
    for (uint32_t rank = 1; rank < data_ranks; ++rank) change.add_shares(3);
  }
  return spec;
}

class UnequalSharesTest : public ::testing::TestWithParam<std::string> {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec = TinyJob(GetParam(), "momentum", WriteTinyText(folder_));
    spec.mutable_update()->set_deterministic(true);
    spec.mutable_clipping()->set_by_global_norm(0.5);
    spec.set_micro_batches(2);
    return WithShares(spec, spec.workers());
  }

  const TempFolder folder_;
};

TEST_P(UnequalSharesTest, TrainAsOneProcess) {
  const v1::JobSpec spec = Job();
  const TrainedValues alone = TrainLocally(spec);
  RunOptions options;
  options.keys = alone.keys;
  ExpectClose(TrainOnServers(spec, options).trained[0], alone, 1e-5);
  for (const uint32_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    v1::JobSpec all_reduce = ByAllReduceInSmallBuckets(spec);
    all_reduce.mutable_parallelism()->mutable_zero()->set_stage(stage);
    ExpectClose(TrainByAllReduce(all_reduce, options).trained[0], alone, 1e-5);
  }
}

TEST_P(UnequalSharesTest, ATaskThatTakesOverLeavesTheSameBits) {
  const v1::JobSpec spec = ByAllReduceInSmallBuckets(Job());
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const TrainedValues undisturbed = TrainByAllReduce(spec, options).trained[0];
  const TrainedValues on_servers = TrainOnServers(Job(), options).trained[0];
  for (const bool takes_effect : {false, true}) {
    options.deaths = {
        {.slot = 1, .at = {.hook = Hook::kEndStep, .step = 5}, .takes_effect = takes_effect}};
    EXPECT_EQ(TrainByAllReduce(spec, options).trained[0].values, undisturbed.values);
    EXPECT_EQ(TrainOnServers(Job(), options).trained[0].values, on_servers.values);
  }
}

TEST_P(UnequalSharesTest, TheBatchChangesBesideThem) {
  v1::JobSpec spec = Job();
  for (const auto& [step, batch_size] : {std::pair<uint64_t, uint32_t>(3, 20), {9, 28}}) {
    v1::BatchChange& change = *spec.add_batch_changes();
    change.set_step(step);
    change.set_batch_size(batch_size);
  }
  const TrainedValues alone = TrainLocally(spec);
  RunOptions options;
  options.keys = alone.keys;
  ExpectClose(TrainOnServers(spec, options).trained[0], alone, 1e-5);
  ExpectClose(TrainByAllReduce(ByAllReduceInSmallBuckets(spec), options).trained[0], alone, 1e-5);
}

// The shares that `balance` decided, which are in the job's record, as `share_changes` of another.
TEST_P(UnequalSharesTest, ARunIsRepeatedWithWhatWasDecided) {
  const v1::JobSpec spec = ByAllReduceInSmallBuckets(Job());
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const TrainedValues repeated = TrainByAllReduce(spec, options).trained[0];
  v1::JobSpec decided = spec;
  decided.clear_share_changes();
  EXPECT_NE(TrainByAllReduce(decided, options).trained[0].values, repeated.values)
      << "equal shares add up in another order";
  google::protobuf::RepeatedPtrField<v1::Adjustment> adjustments;
  for (const v1::ShareChange& change : spec.share_changes()) {
    v1::Adjustment& added = *adjustments.Add();
    added.set_clock(change.step());
    added.set_rate_factor(1);
    *added.mutable_shares() = change.shares();
  }
  options.adjustments = Adjustments(adjustments);
  EXPECT_EQ(TrainByAllReduce(decided, options).trained[0].values, repeated.values);
}

INSTANTIATE_TEST_SUITE_P(Models, UnequalSharesTest,
                         ::testing::Values("mlp", "deep_fm", "transformer"),
                         [](const auto& info) { return info.param; });

TEST(UnequalSharesOnMeshTest, TrainAsOneProcess) {
  const TempFolder folder;
  for (const TensorShape shape : {TensorShape::kGpt2, TensorShape::kExperts}) {
    SCOPED_TRACE(NameOf(shape));
    v1::JobSpec spec = TensorJob(shape, folder);
    spec.set_batch_size(14);
    spec = WithShares(spec, 2);
    const TrainedValues alone = TrainLocally(spec);
    ExpectClose(ValuesByAllReduce(OnMesh(ByAllReduce(spec), 2, 2, 3)), alone, 1e-5);
    ExpectClose(ValuesOnServers(OnMesh(spec, 2, 2)), alone, 1e-5);
    ExpectClose(ValuesByAllReduce(InContext(OnMesh(ByAllReduce(spec), 1, 4), 2)), alone, 1e-5);
  }
}

}  // namespace
}  // namespace muster
