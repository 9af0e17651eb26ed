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
  EXPECT_EQ(PredictMemory(spec).server_bytes, 4 * kDense * 3 + 2000 * (4 * 9 + 64));
  clicks.set_cardinality(uint64_t{1} << 40);
  EXPECT_EQ(PredictMemory(spec).server_bytes, 4 * kDense * 3 + (2 << 18) * (4 * 9 + 64));
  // Beyond the cache, the rows of a step alone; a cache that is never full takes nothing more.
  spec.mutable_sparse_tables()->set_cache_bytes(10000);
  const uint64_t step_rows = spec.batch_size() * 2;
  EXPECT_EQ(PredictMemory(spec).server_bytes, 4 * kDense * 3 + 10000 + step_rows * (4 * 9 + 64));
  spec.mutable_sparse_tables()->set_cache_bytes(uint64_t{1} << 40);
  EXPECT_EQ(PredictMemory(spec).server_bytes, 4 * kDense * 3 + (2 << 18) * (4 * 9 + 64));
}

TEST(MemoryPredictionTest, ShortOrdersHaveFewStrings) {
  v1::JobSpec spec = SmallJob();
  v1::NgramSpec& ngram = *spec.mutable_model()->mutable_ngram();
  ngram.set_orders(3);
  ngram.set_embedding_dim(4);
  ngram.set_hidden(8);
  const uint64_t dense = (3 * 4 + 1) * 8 + 9 * 256;
  EXPECT_EQ(PredictMemory(spec).server_bytes,
            4 * dense * 2 + (256 + 65536 + (1 << 18)) * (4 * 4 + 64));
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

TEST(MemoryPredictionTest, HalfPrecisionPushesOweAResidual) {
  v1::JobSpec spec = SmallJob();
  FillDefaults(spec);
  constexpr uint64_t kParameters = 9 * 16 + 17 * 3;
  const uint64_t f32 = PredictMemory(spec).worker_bytes;
  for (const v1::UpdateSpec::WireType wire : {v1::UpdateSpec::BF16, v1::UpdateSpec::F16}) {
    spec.mutable_update()->set_wire(wire);
    EXPECT_EQ(PredictMemory(spec).worker_bytes, f32 + 10 * kParameters);
  }
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
  constexpr uint64_t kRows = 2000 * (4 * 8 + 64);
  const MemoryPrediction hybrid = PredictMemory(spec);
  EXPECT_EQ(hybrid.server_bytes, kRows);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  const MemoryPrediction replicated = PredictMemory(spec);
  EXPECT_EQ(replicated.server_bytes, 0);
  // Beside the rows, those that the 8 examples of a step touch.
  EXPECT_EQ(replicated.worker_bytes, hybrid.worker_bytes + kRows + 8 * 2 * (4 * 8 + 8) * 2);
  EXPECT_THAT(DescribeWorker(replicated),
              AllOf(StartsWith("64.2 MiB = weights 64 bytes + gradients 64 bytes + "),
                    HasSubstr(" + sparse rows 192000 bytes + rows of a step 1280 bytes + "),
                    EndsWith("program and buffers 64.0 MiB")));
}

TEST(MemoryPredictionTest, Transformers) {
  v1::JobSpec spec = SmallJob();
  v1::TransformerSpec& gpt2 = *spec.mutable_model()->mutable_transformer();
  gpt2.set_layers(12);
  gpt2.set_width(768);
  gpt2.set_heads(12);
  gpt2.set_context(1024);
  gpt2.set_vocabulary(50257);
  spec.mutable_data()->mutable_sequences()->set_path("p");
  FillDefaults(spec);
  const auto part = [&spec](absl::string_view name) {
    uint64_t bytes = 0;
    for (const MemoryPrediction::Part& one : PredictMemory(spec).worker_parts) {
      if (one.name == name) bytes += one.bytes;
    }
    return bytes;
  };
  EXPECT_EQ(part("weights"), 4 * uint64_t{124439808});
  const uint64_t kept = part("activations and batches");
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::SELECTIVE);
  const uint64_t selective = part("activations and batches");
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
  const uint64_t full = part("activations and batches");
  EXPECT_LT(selective, kept);
  EXPECT_LT(full, selective);
  EXPECT_EQ(part("weights in bf16"), 0);
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  EXPECT_EQ(part("weights in bf16"), 2 * uint64_t{124439808});
  EXPECT_LT(part("activations and batches"), full);
}

}  // namespace
}  // namespace muster
