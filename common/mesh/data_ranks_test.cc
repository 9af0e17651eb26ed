#include "common/mesh/data_ranks.h"

#include "common/mesh/mesh.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

TEST(DataRanksTest, OtherAxesDivideTheWorkersAndTheirRanksShareExamples) {
  v1::JobSpec spec;
  EXPECT_EQ(DataRanks(spec), 1u);
  spec.set_workers(24);
  EXPECT_EQ(DataRanks(spec), 24u);
  spec.mutable_parallelism()->set_pipeline(2);
  spec.mutable_parallelism()->set_context(3);
  spec.mutable_parallelism()->set_tensor(2);
  // Experts divide the ranks that are there.
  spec.mutable_parallelism()->set_expert(6);
  EXPECT_EQ(DataRanks(spec), 2u);
  EXPECT_EQ(Mesh::FromSpec(spec.parallelism(), 24)->size("data"), 2);
}

TEST(DataRanksTest, DataRanksAndMicroBatchesShareTheBatch) {
  v1::JobSpec spec;
  spec.set_batch_size(8);
  EXPECT_EQ(LargestMicroBatch(spec), 8u);
  spec.set_workers(3);
  EXPECT_EQ(LargestMicroBatch(spec), 3u);
  spec.set_micro_batches(2);
  EXPECT_EQ(LargestMicroBatch(spec), 2u);
  spec.set_workers(6);
  spec.mutable_parallelism()->set_tensor(2);
  EXPECT_EQ(LargestMicroBatch(spec), 2u);
  spec.set_micro_batches(0);
  EXPECT_EQ(LargestMicroBatch(spec), 3u);
}

}  // namespace
}  // namespace muster
