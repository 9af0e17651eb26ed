#include "common/step/divide_units.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

UnitCost Unit(double operations, double state_bytes = 0, double activation_bytes = 0) {
  return {.operations = {operations, 0, 0},
          .state_bytes = state_bytes,
          .activation_bytes = activation_bytes};
}

StageShape Stages(int stages, int micro_batches = 4) {
  return {StageOrder::kOneForwardOneBackward, stages, 1, micro_batches};
}

// Returns the slowest stage and the most bytes.
std::pair<double, double> Worst(const StageShape& shape, const std::vector<UnitCost>& units,
                                const std::vector<int>& sizes) {
  std::pair<double, double> worst;
  for (const StageCost& stage : CostsOfStages(shape, units, sizes)) {
    worst.first = std::max(worst.first, stage.operations);
    worst.second = std::max(worst.second, stage.bytes);
  }
  return worst;
}

// Calls `visit` with every division of the units.
void ForEachDivision(int units, int virtual_stages,
                     const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> sizes;
  const std::function<void(int)> add = [&](int left) {
    const int open = virtual_stages - static_cast<int>(sizes.size());
    for (int size = open == 1 ? left : 1; size <= left - (open - 1); ++size) {
      sizes.push_back(size);
      open == 1 ? visit(sizes) : add(left - size);
      sizes.pop_back();
    }
  };
  add(units);
}

TEST(DivideUnitsTest, AHeadWeighsAsManyBlocksAsItCosts) {
  // An embedding, six blocks, and a head that costs as much as three.
  std::vector<UnitCost> units(8, Unit(2));
  units.front() = Unit(0);
  units.back() = Unit(6);
  EXPECT_THAT(*DivideUnits(Stages(3), units), ElementsAre(4, 3, 1));
}

TEST(DivideUnitsTest, AmongEquallyFastDivisionsTheSmallestIsTaken) {
  // A unit without operations goes to the stage with less memory.
  const std::vector<UnitCost> units = {Unit(1, 5), Unit(0, 3), Unit(1, 1)};
  EXPECT_THAT(*DivideUnits(Stages(2), units), ElementsAre(1, 2));
  const std::vector<UnitCost> other = {Unit(1, 1), Unit(0, 3), Unit(1, 5)};
  EXPECT_THAT(*DivideUnits(Stages(2), other), ElementsAre(2, 1));
}

TEST(DivideUnitsTest, EarlierStagesHoldMoreMicroBatches) {
  const std::vector<UnitCost> units = {Unit(1, 0, 3), Unit(0, 0, 2), Unit(1, 0, 3)};
  EXPECT_THAT(*DivideUnits(Stages(2), units), ElementsAre(1, 2));
  const std::vector<StageCost> stages = CostsOfStages(Stages(2), units, {1, 2});
  EXPECT_EQ(stages[0].bytes, 2 * 3);
  EXPECT_EQ(stages[1].bytes, 5);
}

TEST(DivideUnitsTest, IsTheBestOfAllDivisions) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const int count = 2 + static_cast<int>(random() % 8);
    const StageShape shape = Stages(1 + static_cast<int>(random() % count));
    std::vector<UnitCost> units;
    for (int unit = 0; unit < count; ++unit) {
      units.push_back(Unit(random() % 10, random() % 10, random() % 4));
    }
    std::pair<double, double> best = Worst(shape, units, *DivideUnits(shape, units));
    ForEachDivision(count, shape.stages, [&](const std::vector<int>& sizes) {
      ASSERT_GE(Worst(shape, units, sizes), best);
    });
  }
}

TEST(DivideUnitsTest, SeveralChunksAreBalancedByStage) {
  // The head alone is the slowest virtual stage, so stage 1 gets fewer blocks in its other virtual
  // stage.
  std::vector<UnitCost> units(14, Unit(1));
  units.front() = Unit(0);
  units.back() = Unit(5);
  const StageShape shape = {StageOrder::kInterleaved, 2, 2, 4};
  const std::vector<int> sizes = *DivideUnits(shape, units);
  double best = Worst(shape, units, sizes).first;
  EXPECT_EQ(best, 9);
  ForEachDivision(14, 4, [&](const std::vector<int>& other) {
    ASSERT_GE(Worst(shape, units, other).first, best);
  });
}

TEST(DivideUnitsTest, OperationsAreSummedByGroup) {
  const std::vector<UnitCost> units = {
      {.operations = {1, 2, 3}}, {.operations = {10, 20, 30}}, {.operations = {5, 5, 5}}};
  const std::vector<VirtualStageTimes> virtual_stages = OperationsOfVirtualStages(units, {2, 1});
  ASSERT_EQ(virtual_stages.size(), 2);
  EXPECT_EQ(virtual_stages[0].forward, 11);
  EXPECT_EQ(virtual_stages[0].backward_input, 22);
  EXPECT_EQ(virtual_stages[0].backward_weights, 33);
  EXPECT_EQ(virtual_stages[1].total(), 15);
}

TEST(DivideUnitsTest, FewerUnitsThanGroupsAreRefused) {
  const std::vector<UnitCost> units(5, Unit(1));
  const StageShape shape = {StageOrder::kInterleaved, 3, 2, 3};
  EXPECT_THAT(DivideUnits(shape, units).status().message(),
              HasSubstr("a model of 5 units has too few for 6 virtual stages, which are 3 stages "
                        "with 2 each"));
}

}  // namespace
}  // namespace muster
