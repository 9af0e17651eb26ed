#include "server/coordinator/memory_prediction.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/job_validator.h"
#include "server/coordinator/test_jobs.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kBase = 64 << 20;

TEST(MemoryPredictionTest, CountsDenseParametersAndOptimizerSlots) {
  v1::JobSpec spec = SmallJob();
  // 8 -> 16 -> 3 with biases.
  constexpr uint64_t kParameters = 9 * 16 + 17 * 3;
  EXPECT_EQ(PredictMemory(spec).server_bytes, 4 * kParameters * 2);
  EXPECT_EQ(PredictMemory(spec).worker_bytes, kBase + 8 * kParameters + 4 * (8 + 16 + 3) * 12);
  spec.mutable_optimizer()->set_name("adam");
  EXPECT_EQ(PredictMemory(spec).server_bytes, 4 * kParameters * 4);
}

TEST(MemoryPredictionTest, DeterministicJobsParkTheGradientsOfAllSlotsButOne) {
  v1::JobSpec spec = SmallJob();
  const uint64_t as_they_come = PredictMemory(spec).server_bytes;
  spec.mutable_update()->set_deterministic(true);
  spec.set_workers(4);
  const uint64_t sum_bytes = as_they_come / 2;
  EXPECT_EQ(PredictMemory(spec).server_bytes, as_they_come + 4 * sum_bytes);
}

TEST(MemoryPredictionTest, BoundsSparseRowsByWhatTheSpecificationSays) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_optimizer()->set_name("row_wise_adagrad");
  spec.mutable_model()->mutable_deep_fm()->set_embedding_dim(7);
  v1::SyntheticClicksData& clicks = *spec.mutable_data()->mutable_synthetic_clicks();
  clicks.set_fields(2);
  clicks.set_cardinality(1000);
  // Output layer from 14 inputs, and the bias of the sum; rows of 8 floats and one slot.
  constexpr uint64_t kDense = 15 + 1;
  EXPECT_EQ(PredictMemory(spec).server_bytes, 4 * kDense * 3 + 2000 * (4 * 9 + 48));
  clicks.set_cardinality(uint64_t{1} << 40);
  EXPECT_EQ(PredictMemory(spec).server_bytes, 4 * kDense * 3 + (2 << 18) * (4 * 9 + 48));
}

TEST(MemoryPredictionTest, ShortOrdersHaveFewStrings) {
  v1::JobSpec spec = SmallJob();
  v1::NgramSpec& ngram = *spec.mutable_model()->mutable_ngram();
  ngram.set_orders(3);
  ngram.set_embedding_dim(4);
  ngram.set_hidden(8);
  const uint64_t dense = (3 * 4 + 1) * 8 + 9 * 256;
  EXPECT_EQ(PredictMemory(spec).server_bytes,
            4 * dense * 2 + (256 + 65536 + (1 << 18)) * (4 * 4 + 48));
}

TEST(MemoryPredictionTest, AReplicaIsOnEveryWorkerAndNoServer) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_optimizer()->set_name("adam");
  FillDefaults(spec);
  constexpr uint64_t kParameters = 9 * 16 + 17 * 3;
  const MemoryPrediction f32 = PredictMemory(spec);
  EXPECT_EQ(f32.server_bytes, 0);
  // Weights, gradients, two slots; the only bucket twice.
  EXPECT_EQ(f32.worker_bytes,
            kBase + 4 * kParameters * 4 + 8 * kParameters + 4 * (8 + 16 + 3) * 12);
  spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  EXPECT_EQ(PredictMemory(spec).worker_bytes, f32.worker_bytes - 6 * kParameters);
  spec.mutable_update()->set_wire(v1::UpdateSpec::F32);
  spec.mutable_update()->set_first_bucket_bytes(64);
  spec.mutable_update()->set_bucket_bytes(128);
  EXPECT_EQ(PredictMemory(spec).worker_bytes, f32.worker_bytes - 8 * kParameters + 256);
  spec.set_micro_batches(4);
  EXPECT_EQ(PredictMemory(spec).worker_bytes,
            f32.worker_bytes - 8 * kParameters + 256 - 3 * (8 + 16 + 3) * 12);
}

TEST(MemoryPredictionTest, RowsAreWhereTheirRoadHasThem) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_model()->mutable_deep_fm()->set_embedding_dim(7);
  v1::SyntheticClicksData& clicks = *spec.mutable_data()->mutable_synthetic_clicks();
  clicks.set_fields(2);
  clicks.set_cardinality(1000);
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  FillDefaults(spec);
  constexpr uint64_t kRows = 2000 * (4 * 8 + 48);
  const MemoryPrediction hybrid = PredictMemory(spec);
  EXPECT_EQ(hybrid.server_bytes, kRows);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  const MemoryPrediction replicated = PredictMemory(spec);
  EXPECT_EQ(replicated.server_bytes, 0);
  // Beside the rows, those that the 8 examples of a step touch.
  EXPECT_EQ(replicated.worker_bytes, hybrid.worker_bytes + kRows + 8 * 2 * (4 * 8 + 8) * 2);
  EXPECT_THAT(DescribeWorker(replicated),
              AllOf(StartsWith("64.2 MiB = weights 64 bytes + gradients 64 bytes + "),
                    HasSubstr(" + sparse rows 160000 bytes + rows of a step 1280 bytes + "),
                    EndsWith("program and buffers 64.0 MiB")));
}

}  // namespace
}  // namespace muster
