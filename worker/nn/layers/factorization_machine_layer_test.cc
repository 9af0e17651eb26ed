#include "worker/nn/layers/factorization_machine_layer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(FactorizationMachineLayerTest, SumsTheProductsOfAllPairs) {
  // Vectors (1, 2), (3, 4), (5, 6): 11 + 17 + 39.
  std::vector<float> out(1);
  FactorizationMachineLayer({.fields = 3, .dim = 2})
      .Forward({}, {}, {1, 2, 3, 4, 5, 6}, absl::MakeSpan(out));
  EXPECT_THAT(out, ElementsAre(67));
}

TEST(FactorizationMachineLayerTest, Gradients) {
  CheckLayer(FactorizationMachineLayer({.fields = 4, .dim = 3}), 3, 1);
  CheckLayer(FactorizationMachineLayer({.fields = 3, .dim = 5, .others = 2}), 4, 2);
}

TEST(FactorizationMachineLayerTest, OneFieldHasNoPairs) {
  CheckLayer(FactorizationMachineLayer({.fields = 1, .dim = 4}), 2, 3);
  std::vector<float> out(1);
  FactorizationMachineLayer({.fields = 1, .dim = 2}).Forward({}, {}, {3, 4}, absl::MakeSpan(out));
  EXPECT_THAT(out, Each(0));
}

}  // namespace
}  // namespace muster
