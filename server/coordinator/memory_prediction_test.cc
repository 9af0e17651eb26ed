#include "server/coordinator/memory_prediction.h"

#include "gtest/gtest.h"
#include "server/coordinator/test_jobs.h"

namespace muster {
namespace {

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

}  // namespace
}  // namespace muster
