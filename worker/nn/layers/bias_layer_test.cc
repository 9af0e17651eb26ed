#include "worker/nn/layers/bias_layer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(BiasLayerTest, Gradients) {
  CheckLayer(BiasLayer(3), 5, 1);
  CheckLayer(BiasLayer(1), 2, 2);
}

TEST(BiasLayerTest, WorksInPlace) {
  const std::vector<float> bias = {10, 20};
  const std::vector<absl::Span<const float>> parameters = {bias};
  std::vector<float> values = {1, 2, 3, 4};
  BiasLayer(2).Forward({}, parameters, values, absl::MakeSpan(values));
  EXPECT_THAT(values, ElementsAre(11, 22, 13, 24));
  BiasLayer(2).BackwardInput({}, parameters, {.in = {}, .out = {}, .out_gradient = values},
                             Accumulation::kWrite, absl::MakeSpan(values));
  EXPECT_THAT(values, ElementsAre(11, 22, 13, 24));
}

TEST(BiasLayerTest, TakesNoWeightDecay) {
  std::vector<TensorSpec> tensors;
  BiasLayer(2).AppendTensors("bias", 1, tensors);
  ASSERT_EQ(tensors.size(), 1);
  EXPECT_EQ(tensors[0].name, "bias");
  EXPECT_FALSE(tensors[0].weight_decay);
}

}  // namespace
}  // namespace muster
