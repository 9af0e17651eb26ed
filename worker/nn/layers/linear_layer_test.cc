#include "worker/nn/layers/linear_layer.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(LinearLayerTest, ComputesByHand) {
  const LinearLayer layer(3, 2, {});
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<float> bias = {10, 20};
  const std::vector<absl::Span<const float>> parameters = {weight, bias};
  std::vector<float> out(4);
  layer.Forward({}, parameters, {1, 0, 0, 1, 1, 1}, absl::MakeSpan(out));
  EXPECT_THAT(out, ElementsAre(11, 24, 16, 35));
}

TEST(LinearLayerTest, Gradients) {
  CheckLayer(LinearLayer(5, 3, {}), 4, 1);
  CheckLayer(LinearLayer(1, 7, {}), 3, 2);
  CheckLayer(LinearLayer(6, 1, {}), 1, 3);
}

TEST(LinearLayerTest, GradientsWithoutBias) {
  CheckLayer(LinearLayer(5, 3, {.bias = false}), 4, 4);
}

TEST(LinearLayerTest, DescribesItsTensors) {
  std::vector<TensorSpec> tensors;
  LinearLayer(24, 5, {.init = LinearLayer::Init::kRelu}).AppendTensors("hidden", 2, tensors);
  ASSERT_EQ(tensors.size(), 2);
  EXPECT_EQ(tensors[0].name, "hidden.weight");
  EXPECT_THAT(tensors[0].shape, ElementsAre(5, 24));
  EXPECT_EQ(tensors[0].initializer.kind, Initializer::Kind::kUniform);
  EXPECT_FLOAT_EQ(tensors[0].initializer.scale, 0.5);
  EXPECT_TRUE(tensors[0].weight_decay);
  EXPECT_EQ(tensors[1].name, "hidden.bias");
  EXPECT_THAT(tensors[1].shape, ElementsAre(5));
  EXPECT_EQ(tensors[1].initializer.kind, Initializer::Kind::kConstant);
  EXPECT_FALSE(tensors[1].weight_decay);
  EXPECT_EQ(tensors[1].unit, 2);
}

TEST(LinearLayerTest, InitialSpreadFollowsWhatComesNext) {
  std::vector<TensorSpec> tensors;
  LinearLayer(12, 1, {.init = LinearLayer::Init::kLogits}).AppendTensors("a", 0, tensors);
  EXPECT_FLOAT_EQ(tensors[0].initializer.scale, 0.5);
  tensors.clear();
  LinearLayer(12, 1, {.init = LinearLayer::Init::kZero}).AppendTensors("a", 0, tensors);
  EXPECT_EQ(tensors[0].initializer.kind, Initializer::Kind::kConstant);
  EXPECT_EQ(tensors[0].initializer.value, 0);
}

}  // namespace
}  // namespace muster
