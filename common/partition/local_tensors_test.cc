#include "common/partition/local_tensors.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/partition/initial_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Section = Placement::Section;

TensorSpec NormalTensor(std::string name, std::vector<int64_t> shape) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.initializer = {.kind = Initializer::Kind::kNormal, .scale = 1};
  return tensor;
}

TensorSpec Sharded(std::string name, std::vector<int64_t> shape, int dimension,
                   std::vector<Section> sections) {
  TensorSpec tensor = NormalTensor(std::move(name), std::move(shape));
  tensor.placement = {Placement::Kind::kShard, dimension, std::move(sections)};
  return tensor;
}

TensorSpec LocalOf(const TensorSpec& tensor, int ranks, int rank) {
  return LocalTensors({tensor}, {Mesh({.tensor = ranks})}, rank).value().front();
}

// The global indices of the tensor's elements [begin, end), found one by one.
std::vector<uint64_t> Globals(const TensorSpec& tensor, uint64_t begin, uint64_t end) {
  std::vector<uint64_t> globals;
  ForEachGlobal(tensor, begin, end, [&](uint64_t first, uint64_t global, uint64_t count) {
    EXPECT_EQ(first, begin + globals.size());
    for (uint64_t i = 0; i < count; ++i) globals.push_back(global + i);
  });
  return globals;
}

TEST(LocalTensorsTest, OneRankHasWholeTensors) {
  const TensorSpec local = LocalOf(Sharded("w", {4, 3}, 0, {{4, 4}}), 1, 0);
  EXPECT_THAT(local.shape, ElementsAre(4, 3));
  EXPECT_THAT(local.rectangles, IsEmpty());
  EXPECT_THAT(GlobalShape(local), ElementsAre(4, 3));
}

TEST(LocalTensorsTest, SharedElementsAreThoseOfReplicatedTensorsAndOfCommonUnits) {
  EXPECT_THAT(LocalOf(NormalTensor("gain", {6}), 1, 0).shared, IsEmpty());
  EXPECT_THAT(LocalOf(NormalTensor("gain", {6}), 4, 0).shared,
              ElementsAre(SharedElements{0, 6, 4, true}));
  EXPECT_THAT(LocalOf(NormalTensor("gain", {6}), 4, 3).shared,
              ElementsAre(SharedElements{0, 6, 4, false}));
  TensorSpec first = NormalTensor("bias", {6});
  first.placement.kind = Placement::Kind::kFirst;
  EXPECT_THAT(LocalOf(first, 2, 0).shared, IsEmpty());
  EXPECT_THAT(LocalOf(Sharded("w", {4, 6}, 1, {{6, 6}}), 2, 1).shared, IsEmpty());
  // Four ranks have two query heads each, and pairs of them one key and one value head.
  const TensorSpec qkv = Sharded("qkv", {48, 5}, 0, {{32, 8}, {8, 2}, {8, 2}});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(LocalOf(qkv, 4, rank).shared,
                ElementsAre(SharedElements{40, 80, 2, /*first=*/rank % 2 == 0}));
  }
}

TEST(LocalTensorsTest, ExampleOfTheHeader) {
  const TensorSpec local =
      LocalOf(Sharded("qkv", {64, 5}, 0, {{32, 4}, {16, 2}, {16, 2}}), /*ranks=*/2, /*rank=*/1);
  EXPECT_THAT(local.shape, ElementsAre(32, 5));
  EXPECT_THAT(GlobalShape(local), ElementsAre(64, 5));
  EXPECT_THAT(local.rectangles, ElementsAre(Rectangle{{16, 0}, {16, 5}}, Rectangle{{40, 0}, {8, 5}},
                                            Rectangle{{56, 0}, {8, 5}}));
}

TEST(LocalTensorsTest, ReplicatedAndFirst) {
  TensorSpec first = NormalTensor("b", {6});
  first.placement.kind = Placement::Kind::kFirst;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(LocalOf(NormalTensor("g", {6}), 3, rank).elements(), 6);
    const TensorSpec local = LocalOf(first, 3, rank);
    EXPECT_EQ(local.elements(), rank == 0 ? 6 : 0);
    EXPECT_THAT(GlobalShape(local), ElementsAre(6));
    EXPECT_THAT(Globals(local, 0, local.elements()), testing::SizeIs(rank == 0 ? 6 : 0));
  }
}

TEST(LocalTensorsTest, NeighboursHaveAUnitInCommonWhereThereAreFewerUnits) {
  const TensorSpec keys = Sharded("k", {4}, 0, {{4, 2}});
  EXPECT_THAT(Globals(LocalOf(keys, 4, 0), 0, 2), ElementsAre(0, 1));
  EXPECT_THAT(Globals(LocalOf(keys, 4, 1), 0, 2), ElementsAre(0, 1));
  EXPECT_THAT(Globals(LocalOf(keys, 4, 2), 0, 2), ElementsAre(2, 3));
  EXPECT_THAT(Globals(LocalOf(keys, 4, 3), 0, 2), ElementsAre(2, 3));
}

TEST(LocalTensorsTest, SaysWhatDoesNotDivide) {
  const auto local =
      LocalTensors({Sharded("up.weight", {9, 2}, 0, {{9, 9}})}, {Mesh({.tensor = 2})}, 0);
  EXPECT_EQ(local.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(local.status().message(), HasSubstr("up.weight has 9 units"));
  EXPECT_THAT(local.status().message(), HasSubstr("2 tensor ranks"));
  // Six units among four ranks, nor four ranks among six units.
  EXPECT_FALSE(LocalTensors({Sharded("q", {6}, 0, {{6, 6}})}, {Mesh({.tensor = 4})}, 0).ok());
}

// A head that is tied to the embedding, and two units between them.
std::vector<TensorSpec> TiedModel() {
  std::vector<TensorSpec> tensors = {Sharded("embedding", {8, 3}, 0, {{8, 8}}),
                                     NormalTensor("positions", {5, 3}),
                                     NormalTensor("a", {4}),
                                     NormalTensor("b", {6}),
                                     NormalTensor("norm", {3}),
                                     Sharded("head", {8, 3}, 0, {{8, 8}})};
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].unit = i < 2 ? 0 : i < 4 ? i - 1 : 3;
  tensors[5].tied_to = "embedding";
  return tensors;
}

TEST(StagesTest, HaveTheTensorsOfTheirUnits) {
  EXPECT_THAT(ModelDivision().StageOf(7), 0);
  const ModelDivision two = {.mesh = Mesh({.pipeline = 2}), .virtual_stage_units = {2, 2}};
  EXPECT_THAT((std::vector<int>{two.StageOf(0), two.StageOf(1), two.StageOf(2), two.StageOf(3)}),
              ElementsAre(0, 0, 1, 1));
  const ModelDivision interleaved = {.mesh = Mesh({.pipeline = 2}),
                                     .virtual_stage_units = {1, 1, 1, 1}};
  const auto elements = [](const ModelDivision& division, int rank) {
    std::vector<int64_t> elements;
    const std::vector<TensorSpec> local = LocalTensors(TiedModel(), division, rank).value();
    for (const TensorSpec& tensor : local) elements.push_back(tensor.elements());
    return elements;
  };
  EXPECT_THAT(elements(two, 0), ElementsAre(24, 15, 4, 0, 0, 0));
  EXPECT_THAT(elements(two, 1), ElementsAre(24, 0, 0, 6, 3, 24));
  EXPECT_THAT(elements(interleaved, 0), ElementsAre(24, 15, 0, 6, 0, 0));
  EXPECT_THAT(elements(interleaved, 1), ElementsAre(24, 0, 4, 0, 3, 24));
  // Stages 0 and 1 have two tensor ranks each.
  ModelDivision both = two;
  both.mesh = Mesh({.pipeline = 2, .tensor = 2});
  EXPECT_THAT(elements(both, 1), ElementsAre(12, 15, 4, 0, 0, 0));
  EXPECT_THAT(elements(both, 2), ElementsAre(12, 0, 0, 6, 3, 12));
}

TEST(StagesTest, TwoHaveATensorThatIsTiedAcross) {
  const ModelDivision division = {.mesh = Mesh({.pipeline = 2, .tensor = 2}),
                                  .virtual_stage_units = {2, 2}};
  const std::vector<TensorSpec> first = LocalTensors(TiedModel(), division, 1).value();
  const std::vector<TensorSpec> last = LocalTensors(TiedModel(), division, 3).value();
  EXPECT_EQ(first[0].stages, 2);
  EXPECT_TRUE(first[0].first_stage);
  EXPECT_EQ(first[0].unit, 0);
  EXPECT_EQ(first[5].tied_to, "") << "there is nothing of it";
  EXPECT_EQ(last[0].stages, 2);
  EXPECT_FALSE(last[0].first_stage);
  EXPECT_EQ(last[0].unit, 3) << "which reads it";
  EXPECT_EQ(last[5].tied_to, "embedding");
  EXPECT_EQ(first[0].rectangles, last[0].rectangles);
  for (const int own : {1, 2}) EXPECT_EQ(first[own].stages, 1);
  // A tie within a stage is nobody else's business.
  const ModelDivision one = {.mesh = Mesh({.pipeline = 2}), .virtual_stage_units = {4, 1}};
  EXPECT_EQ(LocalTensors(TiedModel(), one, 0).value()[0].stages, 1);
  EXPECT_EQ(LocalTensors(TiedModel(), one, 0).value()[5].tied_to, "embedding");
  EXPECT_EQ(LocalTensors(TiedModel(), one, 1).value()[0].elements(), 0);
}

TEST(LocalTensorsTest, TensorRanksHavePartsOfGradientsThatNoneComputesAlone) {
  // A projection to two heads of queries, and to one of keys that both ranks have.
  const TensorSpec projection = LocalOf(Sharded("projection", {6}, 0, {{4, 2}, {2, 1}}), 2, 1);
  for (const bool divides_tokens : {false, true}) {
    EXPECT_THAT(PartialElements(projection, divides_tokens),
                ElementsAre(SharedElements{2, 4, 2, false}));
    EXPECT_THAT(PartialElements(LocalOf(Sharded("w", {4, 3}, 0, {{4, 4}}), 2, 1), divides_tokens),
                IsEmpty());
  }
  TensorSpec gain = LocalOf(NormalTensor("gain", {5}), 2, 1);
  EXPECT_THAT(PartialElements(gain, true), ElementsAre(SharedElements{0, 5, 2, false}));
  EXPECT_THAT(PartialElements(gain, false), IsEmpty()) << "both compute all of it";
  gain.tied_to = "another";
  EXPECT_THAT(PartialElements(gain, true), IsEmpty()) << "which the owner sums";
}

class SharesTest : public ::testing::TestWithParam<int> {};

TEST_P(SharesTest, HaveEachElementOnceAndItsInitialValue) {
  const int ranks = GetParam();
  for (const TensorSpec& tensor :
       {Sharded("qkv", {64, 3}, 0, {{32, 8}, {16, 8}, {16, 8}}),
        Sharded("up", {16, 5}, 0, {{16, 16}}), Sharded("down", {3, 24}, 1, {{24, 24}}),
        Sharded("bias", {48}, 0, {{24, 24}, {24, 24}})}) {
    SCOPED_TRACE(tensor.name);
    std::vector<float> whole(tensor.elements());
    InitialValues(tensor, 7, 0, absl::MakeSpan(whole));
    std::map<uint64_t, int> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      const TensorSpec local = LocalOf(tensor, ranks, rank);
      const uint64_t n = local.elements();
      const std::vector<uint64_t> globals = Globals(local, 0, n);
      ASSERT_EQ(globals.size(), n);
      for (const uint64_t global : globals) ++seen[global];
      // Any range of a share is a range of the whole share.
      for (const auto& [begin, end] :
           std::vector<std::pair<uint64_t, uint64_t>>{{0, n}, {1, n}, {n / 3, n / 2}, {n - 1, n}}) {
        EXPECT_EQ(Globals(local, begin, end),
                  std::vector<uint64_t>(globals.begin() + begin, globals.begin() + end));
        std::vector<float> values(end - begin);
        InitialValues(local, 7, begin, absl::MakeSpan(values));
        for (uint64_t i = begin; i < end; ++i) EXPECT_EQ(values[i - begin], whole[globals[i]]);
      }
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(tensor.elements()));
    for (const auto& [global, times] : seen) EXPECT_EQ(times, 1) << global;
  }
}

// Nobody sends initial values to the other ranks of a tensor group.
TEST(LocalTensorsTest, SharedElementsHaveTheInitialValuesOfTheWhole) {
  const TensorSpec qkv = Sharded("qkv", {48, 5}, 0, {{32, 8}, {8, 2}, {8, 2}});
  std::vector<float> whole(qkv.elements());
  InitialValues(qkv, 7, 0, absl::MakeSpan(whole));
  for (const int ranks : {2, 4, 8}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const TensorSpec local = LocalOf(qkv, ranks, rank);
      EXPECT_EQ(local.shared.empty(), ranks == 2);
      std::vector<float> values(local.elements());
      InitialValues(local, 7, 0, absl::MakeSpan(values));
      const std::vector<uint64_t> globals = Globals(local, 0, values.size());
      for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], whole[globals[i]]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharesTest, ::testing::Values(1, 2, 4, 8));

}  // namespace
}  // namespace muster
