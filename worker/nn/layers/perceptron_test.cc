#include "worker/nn/layers/perceptron.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// A perceptron whose tensors follow one of another layer, with random parameters.
class PerceptronTest : public ::testing::Test {
 protected:
  PerceptronTest() {
    tensors_.push_back({.name = "other", .shape = {2}});
    perceptron_.AppendTensors(tensors_);
    for (const TensorSpec& tensor : tensors_) {
      parameters_.push_back(RandomValues(tensor.elements(), parameters_.size()));
      gradients_.emplace_back(tensor.elements());
    }
    for (std::vector<float>& values : parameters_) parameter_spans_.push_back(values);
    for (std::vector<float>& values : gradients_) {
      gradient_spans_.push_back(absl::MakeSpan(values));
    }
  }

  double Forward() {
    for (int unit = 0; unit < perceptron_.units(); ++unit) {
      EXPECT_TRUE(perceptron_.Forward({}, unit, parameter_spans_, activations_).ok());
    }
    double sum = 0;
    for (size_t i = 0; i < weights_.size(); ++i) sum += weights_[i] * activations_.out.back()[i];
    return sum;
  }

  void Backward() {
    activations_.out.back() = weights_;
    for (int unit = perceptron_.units() - 1; unit >= 0; --unit) {
      EXPECT_TRUE(
          perceptron_.Backward({}, unit, parameter_spans_, gradient_spans_, activations_).ok());
    }
  }

  const Perceptron perceptron_{
      {.in_features = 4, .hidden = {6, 5}, .out_features = 3, .first_tensor = 1}};
  std::vector<TensorSpec> tensors_;
  std::vector<std::vector<float>> parameters_;
  std::vector<std::vector<float>> gradients_;
  std::vector<absl::Span<const float>> parameter_spans_;
  std::vector<absl::Span<float>> gradient_spans_;
  Perceptron::Activations activations_;
  std::vector<float> in_ = RandomValues(2 * 4, 50);
  // The weights of the outputs in the sum that is differentiated.
  std::vector<float> weights_ = RandomValues(2 * 3, 51);
};

TEST_F(PerceptronTest, DescribesOneUnitPerLinearLayer) {
  EXPECT_EQ(perceptron_.units(), 3);
  std::vector<std::string> names;
  for (const TensorSpec& tensor : tensors_) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("other", "hidden0.weight", "hidden0.bias", "hidden1.weight",
                                 "hidden1.bias", "output.weight", "output.bias"));
  EXPECT_EQ(tensors_[5].unit, 2);
  EXPECT_THAT(tensors_[3].shape, ElementsAre(5, 6));
}

TEST_F(PerceptronTest, Gradients) {
  std::vector<float> in_gradient(in_.size());
  perceptron_.Begin(2, activations_);
  activations_.in = in_;
  activations_.in_gradient = absl::MakeSpan(in_gradient);
  Forward();
  Backward();
  const auto value = [&] { return Forward(); };
  ExpectGradient({.what = "input", .kinks = 0.2}, value, absl::MakeSpan(in_), in_gradient);
  for (size_t t = 1; t < tensors_.size(); ++t) {
    ExpectGradient({.what = tensors_[t].name, .kinks = 0.2}, value, absl::MakeSpan(parameters_[t]),
                   gradients_[t]);
  }
  EXPECT_THAT(gradients_[0], ElementsAre(0, 0)) << "another's tensor";
}

TEST_F(PerceptronTest, BuffersStayAllocated) {
  activations_.in = in_;
  perceptron_.Begin(2, activations_);
  Forward();
  const float* before = activations_.out[1].data();
  weights_.resize(3);
  activations_.in = activations_.in.subspan(0, 4);
  perceptron_.Begin(1, activations_);
  Forward();
  EXPECT_EQ(activations_.out[1].size(), 5);
  EXPECT_EQ(activations_.out[1].data(), before);
}

TEST_F(PerceptronTest, RanksDivideLayersInPairs) {
  const auto placements = [](const Perceptron& perceptron) {
    std::vector<TensorSpec> tensors;
    perceptron.AppendTensors(tensors);
    std::vector<std::string> placements;
    for (const TensorSpec& tensor : tensors) {
      const char* const kinds[] = {"all", "dimension ", "first"};
      placements.push_back(kinds[static_cast<int>(tensor.placement.kind)]);
      if (tensor.placement.kind != Placement::Kind::kShard) continue;
      placements.back() += std::to_string(tensor.placement.dimension);
    }
    return placements;
  };
  EXPECT_THAT(placements(Perceptron({.in_features = 4, .hidden = {6, 5, 8}, .out_features = 3})),
              ElementsAre("dimension 0", "dimension 0", "dimension 1", "first", "dimension 0",
                          "dimension 0", "dimension 1", "first"));
  EXPECT_THAT(placements(Perceptron({.in_features = 4, .hidden = {6, 5}, .out_features = 3})),
              ElementsAre("dimension 0", "dimension 0", "dimension 1", "first", "all", "all"));
  EXPECT_THAT(placements(Perceptron({.in_features = 4, .hidden = {}, .out_features = 3})),
              ElementsAre("all", "all"));
}

}  // namespace
}  // namespace muster
