#include "common/partition/verified_places.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TensorSpec UnitTensor(const std::string& name, uint32_t unit, const std::string& tied_to = "") {
  TensorSpec tensor;
  tensor.name = name;
  tensor.unit = unit;
  tensor.tied_to = tied_to;
  return tensor;
}

// An embedding to which the head is tied, two blocks, and the head's norm.
std::vector<TensorSpec> TiedTensors() {
  return {UnitTensor("embedding", 0), UnitTensor("a", 1),    UnitTensor("b", 1),
          UnitTensor("c", 2),         UnitTensor("norm", 3), UnitTensor("head", 3, "embedding")};
}

TEST(VerifiedPlacesTest, AllUnitsHavePlacesAndTiedTensorsTheirOwners) {
  const VerifiedPlaces places =
      PlacesOfVerified(TiedTensors(), {40, 16, 17, 5, 1, 40}, UnitsAtOnce::kAll);
  EXPECT_THAT(places.begins, ElementsAre(0, 48, 64, 96, 112, 0));
  EXPECT_EQ(places.elements, 128u);
}

TEST(VerifiedPlacesTest, UnitsTakeTurnsButForOwnersOfTiedTensors) {
  const VerifiedPlaces places =
      PlacesOfVerified(TiedTensors(), {40, 16, 17, 5, 1, 40}, UnitsAtOnce::kOne);
  EXPECT_THAT(places.begins, ElementsAre(0, 48, 64, 48, 48, 0));
  EXPECT_EQ(places.elements, 96u);
}

TEST(VerifiedPlacesTest, ATiedTensorWhoseOwnerIsOnAnotherStageHasItsOwnPlace) {
  const VerifiedPlaces places =
      PlacesOfVerified(TiedTensors(), {0, 0, 0, 5, 1, 40}, UnitsAtOnce::kAll);
  EXPECT_THAT(places.begins, ElementsAre(0, 0, 0, 0, 16, 32));
  EXPECT_EQ(places.elements, 80u);
}

}  // namespace
}  // namespace muster
