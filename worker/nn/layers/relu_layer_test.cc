#include "worker/nn/layers/relu_layer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(ReluLayerTest, Gradients) {
  CheckLayer(ReluLayer(4), 5, 1);
  // More than one piece of the accumulating backward pass.
  CheckLayer(ReluLayer(301), 7, 2);
}

TEST(ReluLayerTest, WorksInPlace) {
  std::vector<float> values = {-1, 2, 0, 4};
  const ReluLayer layer(2);
  layer.Forward({}, {}, values, absl::MakeSpan(values));
  EXPECT_THAT(values, ElementsAre(0, 2, 0, 4));
  std::vector<float> gradient = {5, 6, 7, 8};
  layer.BackwardInput({}, {}, {.in = {}, .out = values, .out_gradient = gradient},
                      Accumulation::kWrite, absl::MakeSpan(gradient));
  EXPECT_THAT(gradient, ElementsAre(0, 6, 0, 8));
}

}  // namespace
}  // namespace muster
