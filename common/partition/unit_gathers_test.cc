#include "common/partition/unit_gathers.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/partition/gathers_of_step_for_testing.h"
#include "common/partition/shard_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns the tensors of `units` units of one matrix each. If `tied`, the last unit has a matrix
// tied to the first unit's. There is memory to keep `kept` units.
UnitPlaces PlacesOf(int units, UnitPlaces::Holding holding, bool tied = false, int kept = 0) {
  std::vector<TensorSpec> tensors;
  for (int unit = 0; unit < units; ++unit) {
    TensorSpec tensor;
    tensor.name = absl::StrCat("w", unit);
    tensor.shape = {4, 4};
    tensor.unit = unit;
    tensors.push_back(tensor);
  }
  if (tied) {
    tensors.push_back(tensors[0]);
    tensors.back().name = "head";
    tensors.back().unit = units - 1;
    tensors.back().tied_to = "w0";
  }
  const auto layout = DenseLayout::Create(tensors, {});
  const uint64_t unit_bytes = 4 * 4 * sizeof(float);
  return UnitPlaces(ShardLayout(*layout, 2), tensors, holding, UnitPlaces::Content::kWeights,
                    kept * unit_bytes);
}

UnitPlaces InFlight(int units, bool tied = false) {
  return PlacesOf(units, UnitPlaces::Holding::kInFlight, tied);
}

TEST(UnitGathersTest, GathersTheNextUnitAheadOfItsTime) {
  const UnitPlaces places = InFlight(4);
  UnitGathers gathers(places);
  EXPECT_THAT(gathers.Acquire(0, 1), ElementsAre(0, 1));
  EXPECT_THAT(gathers.Acquire(1, 2), ElementsAre(2));
  EXPECT_THAT(gathers.Acquire(2, 3), ElementsAre(3));
  // Where forward turns into backward, the last two units are still in place.
  EXPECT_THAT(gathers.Acquire(3, 2), IsEmpty());
  EXPECT_THAT(gathers.Acquire(2, 1), ElementsAre(1));
  EXPECT_THAT(gathers.Acquire(1, 0), ElementsAre(0));
  EXPECT_THAT(gathers.Acquire(0, -1), IsEmpty());
}

TEST(UnitGathersTest, ATiedUnitsOwnerIsThere) {
  const UnitPlaces places = InFlight(4, /*tied=*/true);
  UnitGathers gathers(places);
  // The owner was not acquired before.
  EXPECT_THAT(gathers.Acquire(3, 2), ElementsAre(3, 0, 2));
  EXPECT_THAT(gathers.Acquire(0, 1), ElementsAre(1));
}

TEST(GathersOfStepTest, TwiceEachButAtTheTurns) {
  EXPECT_THAT(GathersOfStep(1, InFlight(1), 1), ElementsAre(1));
  EXPECT_THAT(GathersOfStep(2, InFlight(2), 3), ElementsAre(1, 1));
  EXPECT_THAT(GathersOfStep(3, InFlight(3), 1), ElementsAre(2, 1, 1));
  EXPECT_THAT(GathersOfStep(5, InFlight(5), 1), ElementsAre(2, 2, 2, 1, 1));
  // Each further micro-batch begins where the first two units are, and turns as the first did.
  EXPECT_THAT(GathersOfStep(5, InFlight(5), 2), ElementsAre(3, 3, 4, 2, 2));
  EXPECT_THAT(GathersOfStep(5, InFlight(5), 4), ElementsAre(5, 5, 8, 4, 4));
}

TEST(GathersOfStepTest, UnitsWithAPlaceOfTheirOwnOnce) {
  EXPECT_THAT(GathersOfStep(5, PlacesOf(5, UnitPlaces::Holding::kWhole), 4), Each(1));
  // Units 1 to 4 share places; the first, to which the last is tied, does not.
  EXPECT_THAT(GathersOfStep(5, InFlight(5, /*tied=*/true), 1), ElementsAre(1, 2, 2, 1, 1));
  EXPECT_THAT(GathersOfStep(5, InFlight(5, /*tied=*/true), 2), ElementsAre(1, 3, 3, 2, 2));
}

TEST(GathersOfStepTest, KeptUnitsOnce) {
  const auto keeping = [](int kept) {
    return PlacesOf(5, UnitPlaces::Holding::kInFlight, /*tied=*/false, kept);
  };
  EXPECT_THAT(GathersOfStep(5, keeping(0), 2), ElementsAre(3, 3, 4, 2, 2));
  EXPECT_THAT(GathersOfStep(5, keeping(1), 2), ElementsAre(1, 3, 3, 2, 2));
  EXPECT_THAT(GathersOfStep(5, keeping(2), 2), ElementsAre(1, 1, 3, 1, 2));
  EXPECT_THAT(GathersOfStep(5, keeping(3), 4), Each(1));
}

}  // namespace
}  // namespace muster
