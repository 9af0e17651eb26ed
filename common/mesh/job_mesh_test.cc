#include "common/mesh/job_mesh.h"

#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

v1::JobSpec Job(uint32_t workers, uint32_t stage, uint32_t shard) {
  v1::JobSpec spec;
  spec.set_workers(workers);
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  spec.mutable_parallelism()->mutable_zero()->set_shard(shard);
  return spec;
}

TEST(JobMeshTest, AllDataRanksAreOneShardGroupUnlessTheJobSaysAnother) {
  EXPECT_EQ(SizeAlong(Axis::kShard, Job(8, 3, 0)), 8u);
  EXPECT_EQ(SizeAlong(Axis::kShard, Job(8, 1, 4)), 4u);
  EXPECT_EQ(ZeroStage(Job(8, 1, 4)), 1u);
  v1::JobSpec tensor_parallel = Job(8, 2, 0);
  tensor_parallel.mutable_parallelism()->set_tensor(2);
  EXPECT_EQ(SizeAlong(Axis::kShard, tensor_parallel), 4u);
  EXPECT_EQ(RankFiles(tensor_parallel, 8), 8u) << "every rank writes one";
}

TEST(JobMeshTest, TensorRanksHaveSharesOfTheirOwn) {
  EXPECT_EQ(MeshOf(Job(8, 1, 4)).size(kStateAxes), 4);
  v1::JobSpec spec = Job(8, 2, 2);
  spec.mutable_parallelism()->set_tensor(2);
  EXPECT_EQ(MeshOf(spec).size(kStateAxes), 4) << "two data ranks have each of them";
  spec.mutable_parallelism()->clear_zero();
  EXPECT_EQ(MeshOf(spec).size(kStateAxes), 2);
  EXPECT_EQ(RankFiles(spec, 8), 8u);
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_FALSE(RanksDivideState(spec, 8)) << "servers hold all shares";
  EXPECT_EQ(RankFiles(spec, 8), 0u);
}

TEST(JobMeshTest, AScaledBatchHasTheUsualShareForEachDataRank) {
  v1::JobSpec spec = Job(3, 0, 0);
  spec.set_max_workers(5);
  spec.set_batch_size(20);
  spec.set_micro_batches(2);
  constexpr uint64_t kMany = 1000;
  EXPECT_EQ(LargestScaledBatch(spec), 20u) << "it does not scale";
  spec.set_scale_batch(true);
  EXPECT_EQ(ScaledBatch(spec, 3, kMany), 20u);
  EXPECT_EQ(ScaledBatch(spec, 1, kMany), 6u);
  EXPECT_EQ(ScaledBatch(spec, 2, kMany), 12u);
  EXPECT_EQ(ScaledBatch(spec, 5, kMany), 30u);
  EXPECT_EQ(ScaledBatch(spec, 5, 29), 20u) << "there are no more examples";
  EXPECT_EQ(ScaledBatch(spec, 5, 3), 10u) << "one for each micro-batch";
  EXPECT_EQ(LargestScaledBatch(spec), 30u);
}

TEST(JobMeshTest, StagesHaveShardsOfTheirOwn) {
  v1::JobSpec spec = Job(8, 1, 0);
  spec.mutable_parallelism()->set_pipeline(2);
  EXPECT_EQ(SizeAlong(Axis::kShard, spec), 4u);
  EXPECT_EQ(MeshOf(spec).size(kStateAxes), 8);
  EXPECT_EQ(MeshOf(spec).size(Axis::kPipeline), 2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(0);
  EXPECT_EQ(MeshOf(spec).size(kStateAxes), 2);
}

TEST(JobMeshTest, TransformersDivideTokensUnlessTheJobSaysOtherwise) {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_transformer();
  EXPECT_EQ(SizeAlong(Axis::kTensor, spec), 1u);
  EXPECT_FALSE(DividesTokens(spec));
  spec.mutable_parallelism()->set_tensor(4);
  EXPECT_EQ(SizeAlong(Axis::kTensor, spec), 4u);
  EXPECT_TRUE(DividesTokens(spec));
  spec.mutable_parallelism()->set_sequence(false);
  EXPECT_FALSE(DividesTokens(spec));
  spec.mutable_parallelism()->set_sequence(true);
  EXPECT_TRUE(DividesTokens(spec));
  spec.mutable_model()->mutable_mlp();
  EXPECT_FALSE(DividesTokens(spec));
}

TEST(JobMeshTest, OneRankDividesNothing) {
  for (const v1::JobSpec& spec : {Job(8, 0, 0), Job(1, 3, 0), Job(0, 3, 0), Job(8, 2, 1)}) {
    EXPECT_EQ(SizeAlong(Axis::kShard, spec), 1u);
    EXPECT_EQ(ZeroStage(spec), 0u);
    EXPECT_EQ(RankFiles(spec, spec.workers()), 0u);
  }
}

TEST(JobMeshTest, ServersAreTheShardGroupOfStageThree) {
  for (const uint32_t workers : {1, 8}) {
    for (const uint32_t stage : {0, 1, 2, 3}) {
      for (const auto road : {v1::UpdateSpec::ROAD_UNSPECIFIED, v1::UpdateSpec::PARAMETER_SERVER}) {
        v1::JobSpec spec = Job(workers, stage, 0);
        spec.mutable_update()->set_dense(road);
        EXPECT_EQ(HoldsUnitsInFlight(spec), stage == 3);
        if (stage < 3) continue;
        EXPECT_EQ(SizeAlong(Axis::kShard, spec), 1u) << "workers have nothing to divide";
        EXPECT_EQ(RankFiles(spec, workers), 0u);
      }
      v1::JobSpec spec = Job(workers, stage, 0);
      spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
      EXPECT_FALSE(HoldsUnitsInFlight(spec));
    }
  }
}

TEST(JobMeshTest, FewerRanksDivideAnew) {
  v1::JobSpec spec = Job(4, 2, 0);
  EXPECT_FALSE(DividesAnew(spec));
  spec.set_min_workers(4);
  EXPECT_FALSE(DividesAnew(spec)) << "they are never fewer";
  spec.set_min_workers(1);
  EXPECT_TRUE(DividesAnew(spec));
  EXPECT_EQ(SizeAlong(Axis::kShard, spec), 4u);
  EXPECT_EQ(MeshOf(spec, 3).size(Axis::kShard), 3);
  EXPECT_EQ(SmallestShardGroup(spec), 1u);
  spec.set_min_workers(2);
  EXPECT_EQ(SmallestShardGroup(spec), 2u);
  EXPECT_EQ(RankFiles(spec, 3), 3u);
  EXPECT_EQ(RankFiles(spec, 1), 0u) << "nothing is divided";
  spec.mutable_parallelism()->mutable_zero()->set_stage(0);
  EXPECT_FALSE(DividesAnew(spec));
  EXPECT_EQ(MeshOf(spec, 3).size(Axis::kShard), 1);
  EXPECT_EQ(SmallestShardGroup(Job(4, 2, 2)), 2u) << "every round is of all ranks";
}

TEST(JobMeshTest, JobsThatOnlyEvaluateDivideNothing) {
  v1::JobSpec spec = Job(8, 3, 4);
  spec.mutable_stop()->set_evaluate_only(true);
  EXPECT_EQ(SizeAlong(Axis::kShard, spec), 1u);
  EXPECT_EQ(ZeroStage(spec), 0u);
}

TEST(JobMeshTest, OtherAxesDivideTheWorkersAndTheirRanksShareExamples) {
  v1::JobSpec spec;
  EXPECT_EQ(SizeAlong(kDataAxes, spec), 1u);
  spec.set_workers(24);
  EXPECT_EQ(SizeAlong(kDataAxes, spec), 24u);
  spec.mutable_parallelism()->set_pipeline(2);
  spec.mutable_parallelism()->set_context(3);
  spec.mutable_parallelism()->set_tensor(2);
  // Experts divide the ranks that are there.
  spec.mutable_parallelism()->set_expert(6);
  EXPECT_EQ(SizeAlong(kDataAxes, spec), 2u);
  EXPECT_EQ(MeshOf(spec), Mesh::FromSpec(spec.parallelism(), 24).value());
}

TEST(JobMeshTest, DataRanksAndMicroBatchesShareTheBatch) {
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
  spec.add_batch_changes()->set_batch_size(15);
  spec.add_batch_changes()->set_batch_size(9);
  EXPECT_EQ(LargestBatch(spec), 15u);
  EXPECT_EQ(LargestMicroBatch(spec), 5u);
}

}  // namespace
}  // namespace muster
