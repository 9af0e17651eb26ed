#include "common/partition/gradient_axes.h"

#include <vector>

#include "common/partition/local_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A head in unit 1 that is tied to an embedding in unit 0; a projection to two heads of queries and
// one of keys, which all tensor ranks have in common; a bias that all have.
std::vector<TensorSpec> TwoUnits() {
  const auto placed = [](std::vector<Placement::Section> sections) {
    return Placement{.kind = Placement::Kind::kShard, .sections = std::move(sections)};
  };
  return {{.name = "embedding", .shape = {4, 3}, .unit = 0, .placement = placed({{4, 4}})},
          {.name = "projection", .shape = {6}, .unit = 0, .placement = placed({{4, 2}, {2, 1}})},
          {.name = "bias", .shape = {5}, .unit = 1},
          {.name = "head",
           .shape = {4, 3},
           .unit = 1,
           .placement = placed({{4, 4}}),
           .tied_to = "embedding"}};
}

TEST(GradientAxesTest, DataRanksAndSharesOfASequenceHaveParts) {
  for (const Axis axis : {Axis::kReplica, Axis::kShard, Axis::kContext}) {
    for (const TensorSpec& tensor : TwoUnits()) {
      EXPECT_EQ(GradientAlong(tensor, axis, false), GradientSpread::kPartial) << tensor.name;
    }
  }
}

TEST(GradientAxesTest, TensorRanksHaveSharesAndPartsOfWhatTheyShare) {
  const ModelDivision two = {.mesh = Mesh({.tensor = 2})};
  const std::vector<TensorSpec> shares = LocalTensors(TwoUnits(), two, 1).value();
  EXPECT_EQ(GradientAlong(shares[0], Axis::kTensor, true), GradientSpread::kSharded);
  EXPECT_EQ(GradientAlong(shares[2], Axis::kTensor, true), GradientSpread::kPartial);
  EXPECT_EQ(GradientAlong(shares[2], Axis::kTensor, false), GradientSpread::kReplicated);
  EXPECT_THAT(PartialElements(shares[0], true), IsEmpty());
  const SharedElements keys = {.begin = 2, .end = 4, .ranks = 2, .first = false};
  for (const bool divides_tokens : {false, true}) {
    EXPECT_THAT(PartialElements(shares[1], divides_tokens), ElementsAre(keys));
  }
  EXPECT_THAT(PartialElements(shares[2], true),
              ElementsAre(SharedElements{.begin = 0, .end = 5, .ranks = 2, .first = false}));
  EXPECT_THAT(PartialElements(shares[2], false), IsEmpty()) << "both compute all of it";
}

TEST(GradientAxesTest, StagesHavePartsOfWhatIsTied) {
  const ModelDivision two = {.mesh = Mesh({.pipeline = 2}), .virtual_stage_units = {1, 1}};
  for (const int stage : {0, 1}) {
    const std::vector<TensorSpec> shares = LocalTensors(TwoUnits(), two, stage).value();
    EXPECT_EQ(GradientAlong(shares[0], Axis::kPipeline, true), GradientSpread::kPartial);
    EXPECT_EQ(GradientAlong(shares[2], Axis::kPipeline, true), GradientSpread::kSharded);
  }
}

}  // namespace
}  // namespace muster
