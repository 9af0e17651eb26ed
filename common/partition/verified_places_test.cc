#include "common/partition/verified_places.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TensorSpec Tensor(const std::string& name, uint32_t unit, const std::string& tied_to = "") {
  TensorSpec tensor;
  tensor.name = name;
  tensor.unit = unit;
  tensor.tied_to = tied_to;
  return tensor;
}

// An embedding to which the head is tied, two blocks, and the head's norm.
std::vector<TensorSpec> Tensors() {
  return {Tensor("embedding", 0), Tensor("a", 1),    Tensor("b", 1),
          Tensor("c", 2),         Tensor("norm", 3), Tensor("head", 3, "embedding")};
}

TEST(VerifiedPlacesTest, AllUnitsHavePlacesAndTiedTensorsTheirOwners) {
  const VerifiedPlaces places =
      PlacesOfVerified(Tensors(), {40, 16, 17, 5, 1, 40}, UnitsAtOnce::kAll);
  EXPECT_THAT(places.begins, ElementsAre(0, 48, 64, 96, 112, 0));
  EXPECT_EQ(places.elements, 128u);
}

TEST(VerifiedPlacesTest, UnitsTakeTurnsButForOwnersOfTiedTensors) {
  const VerifiedPlaces places =
      PlacesOfVerified(Tensors(), {40, 16, 17, 5, 1, 40}, UnitsAtOnce::kOne);
  EXPECT_THAT(places.begins, ElementsAre(0, 48, 64, 48, 48, 0));
  EXPECT_EQ(places.elements, 96u);
}

TEST(VerifiedPlacesTest, ATiedTensorWhoseOwnerIsOnAnotherStageHasItsOwnPlace) {
  const VerifiedPlaces places = PlacesOfVerified(Tensors(), {0, 0, 0, 5, 1, 40}, UnitsAtOnce::kAll);
  EXPECT_THAT(places.begins, ElementsAre(0, 0, 0, 0, 16, 32));
  EXPECT_EQ(places.elements, 80u);
}

}  // namespace
}  // namespace muster
