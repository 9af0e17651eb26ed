// Training by all-reduce does what one process does on the joined batch, and what parameter servers
// do, for every model and optimizer.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "common/files/temp_folder.h"
#include "common/plan/calls/step_traffic.h"
#include "gtest/gtest.h"
#include "proto/schema.pb.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"
#include "worker/runtime/training/prepared_job.h"

namespace muster {
namespace {

// The same with sparse tables on servers.
v1::JobSpec Hybrid(v1::JobSpec spec) {
  spec = ByAllReduceInSmallBuckets(std::move(spec));
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  return spec;
}

void ExpectEqualReplicas(const RunResult& run) {
  for (const TrainedValues& other : run.trained) EXPECT_EQ(other.values, run.trained[0].values);
}

class AllReduceTrainingTest
    : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec =
        TinyJob(std::get<0>(GetParam()), std::get<1>(GetParam()), WriteTinyText(folder_));
    spec.set_workers(3);
    return spec;
  }

  const TempFolder folder_;
};

TEST_P(AllReduceTrainingTest, ThreeWorkersEqualOneProcess) {
  const v1::JobSpec spec = Job();
  const TrainedValues expected = TrainLocally(spec);
  RunOptions options;
  options.keys = expected.keys;
  const RunResult run = TrainByAllReduce(ByAllReduceInSmallBuckets(spec), options);
  ExpectClose(run.trained[0], expected, 1e-5);
  ExpectEqualReplicas(run);
}

TEST_P(AllReduceTrainingTest, HybridEqualsOneProcess) {
  const v1::JobSpec spec = Job();
  const TrainedValues expected = TrainLocally(spec);
  RunOptions options;
  options.keys = expected.keys;
  const RunResult run = TrainByAllReduce(Hybrid(spec), options);
  ExpectClose(run.trained[0], expected, 1e-5);
  ExpectEqualReplicas(run);
}

INSTANTIATE_TEST_SUITE_P(EveryModelAndOptimizer, AllReduceTrainingTest,
                         ::testing::ValuesIn(ChosenModelsAndOptimizers()), [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });
INSTANTIATE_TEST_SUITE_P(ExhaustiveEveryModelAndOptimizer, AllReduceTrainingTest,
                         ::testing::ValuesIn(OtherModelsAndOptimizers()), [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

class AllReduceModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  v1::JobSpec Job(const std::string& optimizer) {
    v1::JobSpec spec = TinyJob(GetParam(), optimizer, WriteTinyText(folder_));
    spec.set_workers(3);
    return spec;
  }

  void ExpectTheSameBitsOnAllRoads(const std::string& optimizer, double max_norm) {
    SCOPED_TRACE(testing::Message() << optimizer << " " << max_norm);
    v1::JobSpec spec = Job(optimizer);
    spec.mutable_stop()->set_steps(20);
    spec.mutable_update()->set_deterministic(true);
    spec.mutable_clipping()->set_by_global_norm(max_norm);
    RunOptions options;
    options.keys = TrainLocally(spec).keys;
    const TrainedValues servers = TrainOnServers(spec, options).trained[0];
    ASSERT_FALSE(servers.values.empty());
    EXPECT_EQ(TrainByAllReduce(ByAllReduceInSmallBuckets(spec), options).trained[0].values,
              servers.values);
    EXPECT_EQ(TrainByAllReduce(Hybrid(spec), options).trained[0].values, servers.values);
    // Over pipes alone, in odd pieces; which optimizer takes what comes makes no difference to
    // them.
    if (optimizer != "adam" || max_norm == 0) return;
    options.share_memory = false;
    options.write_bytes = 13;
    EXPECT_EQ(TrainByAllReduce(ByAllReduceInSmallBuckets(spec), options).trained[0].values,
              servers.values);
  }

  // Expects that ranks move the bytes that are predicted, for each kind of update and stage. Each
  // of them takes both ways: with the chosen ones, on one of the numbers of workers, which differs
  // with the model; otherwise on the other two numbers.
  void ExpectPredictedBytes(bool chosen);

  const TempFolder folder_;
};

TEST_P(AllReduceModelTest, DeterministicRoadsEndInTheSameBits) {
  ExpectTheSameBitsOnAllRoads("momentum", 0);
  ExpectTheSameBitsOnAllRoads("adam", 0.05);
  ExpectTheSameBitsOnAllRoads("row_wise_adagrad", 0.05);
}

TEST_P(AllReduceModelTest, DeterministicRoadsEndInTheSameBitsExhaustive) {
  ExpectTheSameBitsOnAllRoads("momentum", 0.05);
  ExpectTheSameBitsOnAllRoads("adam", 0);
  ExpectTheSameBitsOnAllRoads("row_wise_adagrad", 0);
}

TEST_P(AllReduceModelTest, MeasuringTheNormChangesNoBits) {
  v1::JobSpec spec = Job("adam");
  spec.mutable_update()->set_deterministic(true);
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  const RunResult unmeasured = TrainOnServers(spec, options);
  ASSERT_FALSE(unmeasured.trained[0].values.empty());
  EXPECT_FALSE(unmeasured.counters[0].gradient_norm.has_value());
  spec.mutable_clipping()->set_measure_norm(true);
  const RunResult on_servers = TrainOnServers(spec, options);
  EXPECT_EQ(on_servers.trained[0].values, unmeasured.trained[0].values);
  ASSERT_TRUE(on_servers.counters[0].gradient_norm.has_value());
  EXPECT_GT(*on_servers.counters[0].gradient_norm, 0);
  for (const v1::JobSpec& road : {ByAllReduceInSmallBuckets(spec), Hybrid(spec)}) {
    const RunResult run = TrainByAllReduce(road, options);
    EXPECT_EQ(run.trained[0].values, unmeasured.trained[0].values);
    EXPECT_EQ(run.counters[0].gradient_norm, on_servers.counters[0].gradient_norm);
  }
}

TEST_P(AllReduceModelTest, MicroBatchesEqualOneBatch) {
  v1::JobSpec spec = Job("momentum");
  const TrainedValues expected = TrainLocally(spec);
  RunOptions options;
  options.keys = expected.keys;
  const RunResult whole = TrainByAllReduce(ByAllReduceInSmallBuckets(spec), options);
  spec.set_micro_batches(4);
  const RunResult parts = TrainByAllReduce(ByAllReduceInSmallBuckets(spec), options);
  ExpectClose(parts.trained[0], expected, 1e-5);
  ExpectClose(TrainByAllReduce(Hybrid(spec), options).trained[0], expected, 1e-5);
  for (size_t slot = 0; slot < whole.counters.size(); ++slot) {
    EXPECT_EQ(parts.counters[slot].bytes_sent, whole.counters[slot].bytes_sent);
  }
}

void AllReduceModelTest::ExpectPredictedBytes(bool chosen) {
  // Small buckets go to all at once; one of all gradients goes by parts, or in pairs, where a model
  // is large enough for that.
  v1::JobSpec small = ByAllReduceInSmallBuckets(Job("sgd"));
  small.mutable_stop()->set_steps(4);
  v1::JobSpec whole = small;
  whole.mutable_update()->clear_first_bucket_bytes();
  whole.mutable_update()->clear_bucket_bytes();
  v1::JobSpec ordered = whole;
  ordered.mutable_update()->set_deterministic(true);
  v1::JobSpec half = whole;
  half.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  v1::JobSpec ordered_half = half;
  ordered_half.mutable_update()->set_deterministic(true);
  std::vector<v1::JobSpec> specs = {small, whole, ordered, half, ordered_half};
  for (const int stage : {1, 2, 3}) {
    for (v1::JobSpec spec : {whole, ordered_half}) {
      spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
      specs.push_back(spec);
    }
  }
  v1::JobSpec keeps = specs.back();
  keeps.set_micro_batches(3);
  keeps.mutable_parallelism()->mutable_zero()->set_keep_gathered_bytes(4096);
  specs.push_back(keeps);
  const std::vector<std::string>& models = ModelNames();
  const size_t model = std::find(models.begin(), models.end(), GetParam()) - models.begin();
  for (size_t i = 0; i < specs.size(); ++i) {
    v1::JobSpec spec = specs[i];
    for (const int workers : {2, 3, 4}) {
      for (const AllReduceWay way : {AllReduceWay::kSharedMemory, AllReduceWay::kTcp}) {
        const size_t turn = model + i + (way == AllReduceWay::kTcp ? 1 : 0);
        if ((workers == static_cast<int>(2 + turn % 3)) != chosen) continue;
        SCOPED_TRACE(testing::Message()
                     << workers << (way == AllReduceWay::kTcp ? " tcp " : " ")
                     << spec.update().ShortDebugString() << spec.parallelism().ShortDebugString());
        spec.set_workers(workers);
        const absl::StatusOr<PreparedJob> job = PrepareJob(spec);
        ASSERT_EQ(job.status(), absl::OkStatus());
        const auto predicted = PredictAllReduceTraffic(*job->schema, spec, way);
        ASSERT_EQ(predicted.status(), absl::OkStatus());
        RunOptions options;
        options.share_memory = way == AllReduceWay::kSharedMemory;
        const RunResult run = TrainByAllReduce(spec, options);
        ASSERT_EQ(run.counters.size(), workers);
        const auto steps = static_cast<double>(spec.stop().steps());
        for (int slot = 0; slot < workers; ++slot) {
          const StrategyCounters& counters = run.counters[slot];
          EXPECT_GT(counters.bytes_sent, 0);
          EXPECT_EQ(counters.bytes_sent, predicted->workers[slot].sent * steps);
          EXPECT_EQ(counters.bytes_received, predicted->workers[slot].received * steps);
          EXPECT_GT(counters.other_bytes_sent, 0);
          EXPECT_GT(counters.exposed_seconds, 0);
        }
      }
    }
  }
}

TEST_P(AllReduceModelTest, EachRankMovesWhatIsPredicted) { ExpectPredictedBytes(/*chosen=*/true); }

TEST_P(AllReduceModelTest, EachRankMovesWhatIsPredictedExhaustive) {
  ExpectPredictedBytes(/*chosen=*/false);
}

TEST_P(AllReduceModelTest, HalfTheBytesStayNearAndLeaveEqualReplicas) {
  v1::JobSpec spec = Job("sgd");
  const TrainedValues expected = TrainLocally(spec);
  RunOptions options;
  options.keys = expected.keys;
  spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  const RunResult run = TrainByAllReduce(ByAllReduceInSmallBuckets(spec), options);
  // Each of 50 steps moves weights by a gradient whose elements are off by 2^-8 twice at most.
  ExpectClose(run.trained[0], expected, 1e-2);
  ExpectEqualReplicas(run);
  EXPECT_NE(run.trained[0].values, expected.values);
}

TEST_P(AllReduceModelTest, OneWorkerAloneIsOneProcess) {
  v1::JobSpec spec = Job("adam");
  spec.set_workers(1);
  const TrainedValues expected = TrainLocally(spec);
  RunOptions options;
  options.keys = expected.keys;
  EXPECT_EQ(TrainByAllReduce(ByAllReduceInSmallBuckets(spec), options).trained[0].values,
            expected.values);
}

INSTANTIATE_TEST_SUITE_P(EveryModel, AllReduceModelTest, ::testing::ValuesIn(ModelNames()));

}  // namespace
}  // namespace muster
