#include "common/mesh/mesh.h"

#include <algorithm>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MeshTest, LastAxisVariesFastest) {
  const Mesh mesh({.shard = 2, .tensor = 3});
  EXPECT_EQ(mesh.world_size(), 6);
  EXPECT_EQ(mesh.Position(4, Axis::kShard), 1);
  EXPECT_EQ(mesh.Position(4, Axis::kTensor), 1);
  EXPECT_THAT(mesh.Group(4, Axis::kTensor), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.Group(4, Axis::kShard), ElementsAre(1, 4));
}

TEST(MeshTest, AxesOfOneAreNoOps) {
  const Mesh mesh({.replica = 4});
  EXPECT_EQ(mesh.size(Axis::kTensor), 1);
  EXPECT_EQ(mesh.Position(3, Axis::kTensor), 0);
  EXPECT_THAT(mesh.Group(3, Axis::kTensor), ElementsAre(3));
  EXPECT_THAT(mesh.Group(3, Axes()), ElementsAre(3));
  EXPECT_EQ(mesh.Groups(Axis::kTensor).size(), 4);
  EXPECT_EQ(Mesh().world_size(), 1);
}

// Experts are shared out by neighbours along kGradientAxes, whatever axes these are on.
TEST(MeshTest, ExpertsAreOnTheInnermostOfDataAndContext) {
  const Mesh data({.replica = 4, .tensor = 2, .expert = 2});
  EXPECT_EQ(data.size(kDataAxes), 4);
  EXPECT_EQ(data.size(kExpertAxes), 2);
  EXPECT_THAT(data.Group(4, kExpertAxes), ElementsAre(4, 6));
  EXPECT_THAT(data.Group(2, kExpertCopyAxes), ElementsAre(2, 6));
  const Mesh both({.replica = 2, .shard = 2, .context_shards = 2, .expert = 4});
  EXPECT_THAT(both.Group(5, kExpertAxes), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(both.size(kExpertShardAxes), 1);
  EXPECT_EQ(both.size(kHolderAxes), 4);
  // All shards have other experts, and every second replica.
  const Mesh more({.replica = 4, .shard = 2, .expert = 4});
  EXPECT_EQ(more.size(kShardAxes), 2);
  EXPECT_EQ(more.size(kHolderAxes), 4);
  EXPECT_THAT(more.Group(1, kExpertCopyAxes), ElementsAre(1, 5));
  EXPECT_THAT(more.Group(1, kShardAxes), ElementsAre(0, 1));
}

// Every set of axes of a mesh in which none has size 1.
TEST(MeshTest, GroupsOfAnySetOfAxesPartitionTheRanks) {
  const Mesh mesh({.pipeline = 2,
                   .replica = 3,
                   .shard = 2,
                   .context_copies = 2,
                   .context_shards = 3,
                   .tensor = 2});
  for (int bits = 0; bits < 1 << kAxisCount; ++bits) {
    Axes axes;
    for (int i = 0; i < kAxisCount; ++i) {
      if ((bits >> i & 1) != 0) axes = axes | static_cast<Axis>(i);
    }
    SCOPED_TRACE(bits);
    std::set<int> seen;
    for (const std::vector<int>& group : mesh.Groups(axes)) {
      EXPECT_EQ(group.size(), mesh.size(axes));
      EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
      for (size_t i = 0; i < group.size(); ++i) {
        EXPECT_TRUE(seen.insert(group[i]).second) << "rank " << group[i];
        EXPECT_EQ(mesh.Position(group[i], axes), i);
        EXPECT_EQ(mesh.Position(group[i], axes.Others()), mesh.Position(group[0], axes.Others()));
        EXPECT_EQ(mesh.Move(group[i], axes, 0), group[0]);
        EXPECT_EQ(mesh.Group(group[i], axes), group);
        const MeshPosition position(mesh, group[i], axes);
        EXPECT_EQ(position.rank, i);
        EXPECT_EQ(position.mesh.world_size(), group.size());
        for (int axis = 0; axis < kAxisCount; ++axis) {
          const Axis one = static_cast<Axis>(axis);
          EXPECT_EQ(position.at(one), axes.Has(one) ? mesh.Position(group[i], one) : 0);
        }
      }
    }
    EXPECT_EQ(seen.size(), mesh.world_size());
  }
}

TEST(MeshTest, StagesHaveShardsOfTheirOwn) {
  const Mesh mesh({.pipeline = 2, .replica = 2, .shard = 2});
  std::vector<int> shards, replicas;
  for (int rank = 0; rank < 8; ++rank) {
    shards.push_back(mesh.Position(rank, kStateAxes));
    replicas.push_back(mesh.Position(rank, kStateAxes.Others()));
  }
  EXPECT_THAT(shards, ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(replicas, ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_EQ(Mesh({.replica = 1, .shard = 3}).Position(5, kStateAxes), 2)
      << "a slot that a smaller round lacks";
}

TEST(MeshTest, FromSpecLetsDataTakeWhatIsLeft) {
  v1::ParallelismSpec spec;
  EXPECT_EQ(Mesh::FromSpec(spec, 6)->size(kDataAxes), 6);
  spec.set_tensor(2);
  Mesh mesh = Mesh::FromSpec(spec, 6).value();
  EXPECT_EQ(mesh.size(kDataAxes), 3);
  EXPECT_THAT(mesh.Group(0, Axis::kTensor), ElementsAre(0, 1));
  // A round without one of the job's data ranks.
  spec.set_data(3);
  EXPECT_EQ(Mesh::FromSpec(spec, 4)->size(kDataAxes), 2);
}

TEST(MeshTest, FromSpecPutsThePipelineOutermostAndTensorInnermost) {
  v1::ParallelismSpec spec;
  spec.set_pipeline(2);
  spec.set_context(2);
  spec.set_tensor(2);
  Mesh mesh = Mesh::FromSpec(spec, 16).value();
  EXPECT_THAT(mesh.Group(0, Axis::kTensor), ElementsAre(0, 1));
  EXPECT_THAT(mesh.Group(0, kContext), ElementsAre(0, 2));
  EXPECT_THAT(mesh.Group(0, kDataAxes), ElementsAre(0, 4));
  EXPECT_THAT(mesh.Group(0, Axis::kPipeline), ElementsAre(0, 8));
}

TEST(MeshTest, FromSpecRefusesSizesThatDoNotDivideTheRanks) {
  v1::ParallelismSpec spec;
  spec.set_pipeline(2);
  spec.set_tensor(2);
  absl::Status status = Mesh::FromSpec(spec, 6).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("pipeline 2 x context 1 x tensor 2 must divide"));
  EXPECT_THAT(status.message(), HasSubstr("which is 6"));
  EXPECT_FALSE(Mesh::FromSpec(spec, 2).ok());
  EXPECT_FALSE(Mesh::FromSpec({}, 0).ok());
}

TEST(MeshTest, FromSpecRefusesSizesWhoseProductOverflows) {
  v1::ParallelismSpec spec;
  spec.set_pipeline(1u << 31);
  spec.set_context(1u << 31);
  spec.set_tensor(4);
  // The product is 2^64.
  EXPECT_FALSE(Mesh::FromSpec(spec, 1).ok());
  EXPECT_FALSE(Mesh::FromSpec(spec, 8).ok());
  EXPECT_THAT(Mesh::FromSpec({}, (1 << 20) + 1).status().message(), HasSubstr("at most"));
}

TEST(MeshTest, ExpertsDivideDataAndContextAndAddNoRanks) {
  v1::ParallelismSpec spec;
  spec.set_context(2);
  spec.set_tensor(2);
  for (const int expert : {1, 2, 6}) {
    spec.set_expert(expert);
    Mesh mesh = Mesh::FromSpec(spec, 12).value();
    EXPECT_EQ(mesh.world_size(), 12);
    EXPECT_EQ(mesh.size(kDataAxes), 3);
  }
  for (const uint32_t expert : {4u, 12u, 1u << 31}) {
    spec.set_expert(expert);
    absl::Status status = Mesh::FromSpec(spec, 12).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("must divide data 3 x context 2"));
  }
  spec.set_expert(3);
  EXPECT_THAT(Mesh::FromSpec(spec, 12).status().message(),
              HasSubstr("expert is 3 and parallelism.context 2; one of them must divide"));
}

}  // namespace
}  // namespace muster
