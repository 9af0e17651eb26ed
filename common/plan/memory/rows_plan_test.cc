// Checks what a memory plan has of rows of sparse tables.
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/memory/plan_jobs_for_testing.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/distinct_rows.h"
#include "common/plan/size/model_size.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

TEST(RowsPlanTest, RowsAreWhereTheJobSays) {
  v1::JobSpec spec =
      Job("model { deep_fm { embedding_dim: 7 } } "
          "data { synthetic_clicks { examples: 1000000 fields: 2 cardinality: 1000 } } "
          "optimizer { name: 'row_wise_adagrad' learning_rate: 0.1 } batch_size: 1000 stop { "
          "epochs: 1 }");
  // After so many examples each of the values has come; rows of 8 floats and one of state.
  const uint64_t rows = PlanOf(spec).servers.back().bytes;
  EXPECT_LE(rows, 2000 * (4 * 9 + 64));
  EXPECT_GT(rows, 1990 * (4 * 9 + 64));
  spec.mutable_sparse_tables()->set_cache_bytes(10000);
  EXPECT_LT(PlanOf(spec).servers.back().bytes, rows);
  EXPECT_GT(PlanOf(spec).servers.back().bytes, 10000u);
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  EXPECT_EQ(PlanOf(spec).server_bytes(), 0u);
  // An index of 1024 buckets was made at 1600 rows; with the one before it, that was the most.
  EXPECT_EQ(WorkerOf(spec)["sparse tables"], 1600 * (4 * 9 + 32) + (1024 + 512) * 64);
  // With 3000 rows it is the end.
  spec.mutable_data()->mutable_synthetic_clicks()->set_cardinality(1500);
  EXPECT_GT(WorkerOf(spec)["sparse tables"], 2980 * (4 * 9 + 32) + 1024 * 64);
  EXPECT_LE(WorkerOf(spec)["sparse tables"], 3000 * (4 * 9 + 32) + 1024 * 64);
}

// The ranks of a shard group have some partitions' rows each.
TEST(RowsPlanTest, RowsAreDividedByPartition) {
  v1::JobSpec spec =
      Job("model { deep_fm { embedding_dim: 15 } } optimizer { name: 'sgd' learning_rate: 0.1 } "
          "data { synthetic_clicks { examples: 100000000 fields: 8 cardinality: 1000000 } } "
          "batch_size: 4096 stop { epochs: 1 } update { dense: ALL_REDUCE sparse: ALL_REDUCE }");
  spec.set_workers(4);
  const auto tables = [&](uint32_t shard) {
    spec.mutable_parallelism()->mutable_zero()->set_shard(shard);
    return static_cast<double>(WorkerOf(spec)["sparse tables"]);
  };
  const double whole = tables(0);
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  EXPECT_NEAR(tables(4), whole / 4, 0.05 * whole);
  EXPECT_NEAR(tables(2), whole / 2, 0.05 * whole);
  // One of three ranks has three of eight partitions.
  spec.set_workers(3);
  EXPECT_NEAR(tables(0), whole * 3 / 8, 0.05 * whole);
  spec.mutable_update()->set_partitions(9);
  EXPECT_NEAR(tables(0), whole / 3, 0.05 * whole);
}

// Where ranks may become fewer, rows are planned as for the fewest, and for the moment with the
// former rows and the new ones.
TEST(RowsPlanTest, RowsThatAreDividedAnewAreThereTwice) {
  const auto job = [](int workers) {
    v1::JobSpec spec =
        Job("model { deep_fm { embedding_dim: 15 } } optimizer { name: 'sgd' learning_rate: 0.1 } "
            "data { synthetic_clicks { examples: 100000000 fields: 8 cardinality: 1000000 } } "
            "batch_size: 64 stop { epochs: 1 } update { dense: ALL_REDUCE sparse: ALL_REDUCE } "
            "parallelism { zero { stage: 2 } }");
    spec.set_workers(workers);
    return spec;
  };
  v1::JobSpec spec = job(4);
  EXPECT_EQ(WorkerOf(spec)["new slice while the workers change"], 0u);
  spec.set_min_workers(2);
  std::map<std::string, uint64_t> parts = WorkerOf(spec), of_two = WorkerOf(job(2));
  EXPECT_EQ(parts["sparse tables"], of_two["sparse tables"]);
  EXPECT_EQ(parts["rows of a step"], of_two["rows of a step"]);
  EXPECT_GT(PlanOf(spec).worker_own_bytes(), 2 * parts["sparse tables"]);
  EXPECT_LT(PlanOf(spec).worker_own_bytes(), 2 * parts["sparse tables"] + 250 * kMiB);
}

TEST(RowsPlanTest, ACopyHasTheRowsOfAnotherWorker) {
  v1::JobSpec spec =
      Job("model { deep_fm { embedding_dim: 15 } } optimizer { name: 'sgd' learning_rate: 0.1 } "
          "data { synthetic_clicks { examples: 100000000 fields: 8 cardinality: 1000000 } } "
          "batch_size: 64 stop { epochs: 1 } update { dense: ALL_REDUCE sparse: ALL_REDUCE } "
          "workers: 4 parallelism { zero { stage: 2 } }");
  EXPECT_EQ(WorkerOf(spec).count("copy of another worker's rows"), 0u);
  spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  std::map<std::string, uint64_t> parts = WorkerOf(spec);
  EXPECT_GT(parts["copy of another worker's rows"], parts["sparse tables"]);
  EXPECT_LT(parts["copy of another worker's rows"], parts["sparse tables"] + kMiB);
}

TEST(RowsPlanTest, MessagesOfRowsArePutTogetherInSlabs) {
  // Those of a batch beside the bytes of its keys and rows of 16 floats.
  struct Bytes {
    uint64_t messages;
    uint64_t rows;
  };
  const auto of_batch = [](uint64_t batch) {
    const v1::JobSpec spec =
        Job(absl::StrCat("model { deep_fm { embedding_dim: 15 } } optimizer { name: 'sgd' ",
                         "learning_rate: 0.1 } data { synthetic_clicks { examples: 1000000 ",
                         "fields: 8 cardinality: 1000000 } } batch_size: ", batch));
    const DataSize data = SizeOfData(spec.data());
    return Bytes{WorkerOf(spec)["messages of rows"],
                 DistinctRows(SizeOfModel(spec, data), data, batch) * (8 + 4 * 16)};
  };
  const Bytes small = of_batch(100), medium = of_batch(4000), large = of_batch(40000);
  EXPECT_EQ(small.messages, 6 * small.rows);
  EXPECT_LT(medium.rows, 4 * kMiB);
  EXPECT_EQ(medium.messages, 5 * medium.rows + 4 * kMiB);
  EXPECT_EQ(large.messages, 6 * large.rows);
}

}  // namespace
}  // namespace muster
