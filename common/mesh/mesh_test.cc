#include "common/mesh/mesh.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MeshTest, LastAxisVariesFastest) {
  Mesh mesh = Mesh::Create({{"data", 2}, {"tensor", 3}}).value();
  EXPECT_EQ(mesh.world_size(), 6);
  EXPECT_THAT(mesh.Coordinates(4), ElementsAre(1, 1));
  EXPECT_EQ(mesh.Rank({1, 1}), 4);
  EXPECT_THAT(mesh.Group(4, "tensor"), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.Group(4, "data"), ElementsAre(1, 4));
}

TEST(MeshTest, MissingAxesAndAxesOfOneAreNoOps) {
  Mesh mesh = Mesh::Create({{"data", 4}, {"tensor", 1}}).value();
  EXPECT_EQ(mesh.size("tensor"), 1);
  EXPECT_EQ(mesh.size("expert"), 1);
  EXPECT_EQ(mesh.Coordinate(3, "expert"), 0);
  EXPECT_THAT(mesh.Group(3, "tensor"), ElementsAre(3));
  EXPECT_THAT(mesh.Group(3, "expert"), ElementsAre(3));
  EXPECT_EQ(mesh.Groups("tensor").size(), 4);
}

TEST(MeshTest, NoAxesAreOneRank) {
  for (const Mesh& mesh : {Mesh(), Mesh::Create({}).value()}) {
    EXPECT_EQ(mesh.world_size(), 1);
    EXPECT_EQ(mesh.Rank({}), 0);
  }
}

TEST(MeshTest, CoordinatesAndRanksAreInverse) {
  Mesh mesh = Mesh::Create({{"pipeline", 2}, {"data", 3}, {"context", 1}, {"tensor", 4}}).value();
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    EXPECT_EQ(mesh.Rank(mesh.Coordinates(rank)), rank);
  }
}

TEST(MeshTest, GroupsOfAnAxisPartitionTheRanks) {
  Mesh mesh = Mesh::Create({{"pipeline", 2}, {"data", 3}, {"tensor", 4}}).value();
  for (const Mesh::Axis& axis : mesh.axes()) {
    std::set<int> seen;
    for (const std::vector<int>& group : mesh.Groups(axis.name)) {
      EXPECT_EQ(group.size(), axis.size);
      for (size_t i = 0; i < group.size(); ++i) {
        EXPECT_TRUE(seen.insert(group[i]).second) << axis.name << " rank " << group[i];
        EXPECT_EQ(mesh.Coordinate(group[i], axis.name), i);
        EXPECT_EQ(mesh.Group(group[i], axis.name), group);
      }
    }
    EXPECT_EQ(seen.size(), mesh.world_size());
  }
}

TEST(MeshTest, RefusesBadAxes) {
  EXPECT_THAT(Mesh::Create({{"data", 0}}).status().message(), HasSubstr("data has size 0"));
  EXPECT_THAT(Mesh::Create({{"", 2}}).status().message(), HasSubstr("no name"));
  EXPECT_THAT(Mesh::Create({{"a", 2}, {"a", 2}}).status().message(), HasSubstr("both named a"));
  EXPECT_THAT(Mesh::Create({{"a", 1 << 20}, {"b", 2}}).status().message(), HasSubstr("more than"));
}

TEST(MeshTest, FromSpecLetsDataTakeWhatIsLeft) {
  v1::ParallelismSpec spec;
  EXPECT_EQ(Mesh::FromSpec(spec, 6)->size("data"), 6);
  spec.set_tensor(2);
  Mesh mesh = Mesh::FromSpec(spec, 6).value();
  EXPECT_EQ(mesh.size("data"), 3);
  EXPECT_THAT(mesh.Group(0, "tensor"), ElementsAre(0, 1));
  // A round without one of the job's data ranks.
  spec.set_data(3);
  EXPECT_EQ(Mesh::FromSpec(spec, 4)->size("data"), 2);
}

TEST(MeshTest, FromSpecPutsThePipelineOutermostAndTensorInnermost) {
  v1::ParallelismSpec spec;
  spec.set_pipeline(2);
  spec.set_context(2);
  spec.set_tensor(2);
  Mesh mesh = Mesh::FromSpec(spec, 16).value();
  EXPECT_THAT(mesh.Group(0, "tensor"), ElementsAre(0, 1));
  EXPECT_THAT(mesh.Group(0, "context"), ElementsAre(0, 2));
  EXPECT_THAT(mesh.Group(0, "data"), ElementsAre(0, 4));
  EXPECT_THAT(mesh.Group(0, "pipeline"), ElementsAre(0, 8));
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
  EXPECT_THAT(Mesh::FromSpec({}, (1 << 20) + 1).status().message(), HasSubstr("more than"));
}

TEST(MeshTest, ExpertsDivideDataAndContextAndAddNoRanks) {
  v1::ParallelismSpec spec;
  spec.set_context(2);
  spec.set_tensor(2);
  for (const int expert : {1, 2, 3, 6}) {
    spec.set_expert(expert);
    Mesh mesh = Mesh::FromSpec(spec, 12).value();
    EXPECT_EQ(mesh.world_size(), 12);
    EXPECT_EQ(mesh.size("data"), 3);
    EXPECT_EQ(mesh.size("expert"), 1);
  }
  for (const uint32_t expert : {4u, 12u, 1u << 31}) {
    spec.set_expert(expert);
    absl::Status status = Mesh::FromSpec(spec, 12).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("must divide data 3 x context 2"));
  }
}

}  // namespace
}  // namespace muster
