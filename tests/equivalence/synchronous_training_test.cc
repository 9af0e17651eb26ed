// BSP on parameter servers does what one process does on the joined batch, for every model and
// optimizer.
#include <string>
#include <tuple>

#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

class SynchronousTrainingTest
    : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  v1::JobSpec Job() {
    return TinyJob(std::get<0>(GetParam()), std::get<1>(GetParam()), WriteTinyText(folder_));
  }

  const TempFolder folder_;
};

TEST_P(SynchronousTrainingTest, TwoWorkersEqualOneProcess) {
  const v1::JobSpec spec = Job();
  const TrainedValues expected = TrainLocally(spec);
  RunOptions options;
  options.keys = expected.keys;
  ExpectClose(TrainOnServers(spec, options).trained[0], expected, 1e-5);
}

TEST_P(SynchronousTrainingTest, MicroBatchesEqualOneProcess) {
  v1::JobSpec spec = Job();
  spec.set_micro_batches(3);
  const TrainedValues expected = TrainLocally(spec);
  RunOptions options;
  options.keys = expected.keys;
  ExpectClose(TrainOnServers(spec, options).trained[0], expected, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(EveryModelAndOptimizer, SynchronousTrainingTest,
                         ::testing::ValuesIn(ChosenModelsAndOptimizers()), [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });
INSTANTIATE_TEST_SUITE_P(ExhaustiveEveryModelAndOptimizer, SynchronousTrainingTest,
                         ::testing::ValuesIn(OtherModelsAndOptimizers()), [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

class LargerThanMemoryTest : public ::testing::TestWithParam<std::string> {};

// With room in memory for a tenth of the rows.
TEST_P(LargerThanMemoryTest, ASmallCacheChangesNoBit) {
  const TempFolder folder;
  v1::JobSpec spec = TinyJob(GetParam(), "adagrad", WriteTinyText(folder));
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_update()->set_partitions(2);
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  uint64_t rows = 0;
  for (const auto& [table, keys] : options.keys) rows += keys.size();
  ASSERT_GT(rows, 100u);
  const TrainedValues in_memory = TrainOnServers(spec, options).trained[0];
  // Rows of these models take at least 72 bytes.
  spec.mutable_sparse_tables()->set_cache_bytes(rows / 10 * 72);
  const TrainedValues tiered = TrainOnServers(spec, options).trained[0];
  EXPECT_EQ(tiered.keys, in_memory.keys);
  EXPECT_EQ(tiered.values, in_memory.values);
}

INSTANTIATE_TEST_SUITE_P(EveryModelWithRows, LargerThanMemoryTest,
                         ::testing::Values("deep_fm", "ngram"));

class ClippedTrainingTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ClippedTrainingTest, ClippingByGlobalNormEqualsOneProcess) {
  const TempFolder folder;
  v1::JobSpec spec = TinyJob(GetParam(), "sgd", WriteTinyText(folder));
  spec.mutable_optimizer()->set_learning_rate(0.5);
  const TrainedValues free = TrainLocally(spec);
  spec.mutable_clipping()->set_by_global_norm(0.05);
  const TrainedValues expected = TrainLocally(spec);
  // The bound is reached.
  EXPECT_NE(expected.values, free.values);
  RunOptions options;
  options.keys = expected.keys;
  ExpectClose(TrainOnServers(spec, options).trained[0], expected, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(EveryModel, ClippedTrainingTest, ::testing::ValuesIn(ModelNames()));

class DeterministicTrainingTest : public ::testing::TestWithParam<std::string> {};

TEST_P(DeterministicTrainingTest, TheSameBitsOnAnyNumberOfServersAndAgain) {
  const TempFolder folder;
  v1::JobSpec spec = TinyJob(GetParam(), "adam", WriteTinyText(folder));
  spec.set_workers(3);
  spec.mutable_update()->set_partitions(4);
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_clipping()->set_by_global_norm(0.5);
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  options.servers = 1;
  const TrainedValues first = TrainOnServers(spec, options).trained[0];
  ASSERT_FALSE(first.values.empty());
  for (int servers : {1, 2, 4}) {
    options.servers = servers;
    EXPECT_EQ(TrainOnServers(spec, options).trained[0].values, first.values)
        << servers << " servers";
  }
}

// Whatever order the plan gives, on servers and alone.
TEST_P(DeterministicTrainingTest, TheSameBitsWhateverThePlan) {
  const TempFolder folder;
  v1::JobSpec spec = TinyJob(GetParam(), "adam", WriteTinyText(folder));
  spec.mutable_stop()->set_steps(20);
  spec.set_micro_batches(3);
  spec.mutable_update()->set_deterministic(true);
  RunOptions options;
  const RunResult alone = TrainAlone(spec, options);
  options.keys = alone.trained.at(0).keys;
  const RunResult on_servers = TrainOnServers(spec, options);
  for (const StageOrder order : {StageOrder::kZeroBubble, StageOrder::kGPipe}) {
    options.order = order;
    const RunResult run = TrainAlone(spec, options);
    EXPECT_EQ(run.trained.at(0).keys, alone.trained[0].keys);
    EXPECT_EQ(run.trained[0].values, alone.trained[0].values);
    EXPECT_EQ(TrainOnServers(spec, options).trained[0].values, on_servers.trained[0].values);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryModel, DeterministicTrainingTest, ::testing::ValuesIn(ModelNames()));

}  // namespace
}  // namespace muster
