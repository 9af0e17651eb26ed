#include "worker/nn/transformer/compute_weights.h"

#include "common/compute/host_ops.h"
#include "common/tensor/bfloat16.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Two units of two tensors each, of which one is copied.
class ComputeWeightsTest : public ::testing::Test {
 protected:
  ComputeWeightsTest() {
    for (uint32_t unit : {0u, 1u}) {
      tensors_.push_back({.name = "m" + std::to_string(unit), .shape = {2, 3}, .unit = unit});
      tensors_.push_back({.name = "v" + std::to_string(unit), .shape = {2}, .unit = unit});
    }
    for (const TensorSpec& tensor : tensors_) {
      values_.emplace_back(tensor.elements(), 1.0f);
    }
    for (const std::vector<float>& value : values_) spans_.push_back(value);
  }

  static LayerContext At(uint64_t version) {
    LayerContext context;
    context.parameters_version = version;
    return context;
  }

  static LayerContext Of(Pass pass) {
    LayerContext context;
    context.pass = pass;
    return context;
  }

  template <typename T>
  static float ValueOf(const ComputeWeights& weights, int tensor, int64_t i) {
    return ToFloat(static_cast<const T*>(weights.Get(tensor))[i]);
  }

  HostOps ops_;
  std::vector<TensorSpec> tensors_;
  std::vector<std::vector<float>> values_;
  std::vector<absl::Span<const float>> spans_;
};

TEST_F(ComputeWeightsTest, F32IsTheMasterItself) {
  ComputeWeights weights(DType::kF32, tensors_, {true, false, true, false});
  weights.Prepare(Of(Pass::kTraining));
  weights.BeforeUnit(ops_, At(1), 1, spans_);
  EXPECT_EQ(weights.Get(2), values_[2].data());
}

TEST_F(ComputeWeightsTest, Bf16IsCopiedOncePerVersion) {
  ComputeWeights weights(DType::kBf16, tensors_, {true, false, true, false});
  weights.Prepare(Of(Pass::kTraining));
  weights.BeforeUnit(ops_, At(4), 0, spans_);
  weights.BeforeUnit(ops_, At(4), 1, spans_);
  EXPECT_EQ(ValueOf<BFloat16>(weights, 0, 5), 1);
  EXPECT_EQ(ValueOf<BFloat16>(weights, 2, 5), 1);
  EXPECT_NE(weights.Get(0), weights.Get(2));

  values_[0][5] = 2;
  weights.BeforeUnit(ops_, At(4), 0, spans_);
  EXPECT_EQ(ValueOf<BFloat16>(weights, 0, 5), 1);
  weights.BeforeUnit(ops_, At(5), 0, spans_);
  EXPECT_EQ(ValueOf<BFloat16>(weights, 0, 5), 2);
  // Nobody knows how old these are.
  values_[0][5] = 3;
  weights.BeforeUnit(ops_, At(0), 0, spans_);
  EXPECT_EQ(ValueOf<BFloat16>(weights, 0, 5), 3);
  values_[0][5] = 4;
  weights.BeforeUnit(ops_, At(5), 0, spans_);
  EXPECT_EQ(ValueOf<BFloat16>(weights, 0, 5), 4);
}

TEST_F(ComputeWeightsTest, AnEvaluationHoldsOneUnitAtATime) {
  ComputeWeights weights(DType::kBf16, tensors_, {true, false, true, false});
  weights.Prepare(Of(Pass::kTraining));
  weights.BeforeUnit(ops_, At(4), 0, spans_);
  weights.Prepare(Of(Pass::kEvaluation));
  weights.BeforeUnit(ops_, At(4), 0, spans_);
  values_[2].assign(6, 5.0f);
  weights.BeforeUnit(ops_, At(4), 1, spans_);
  EXPECT_EQ(weights.Get(0), weights.Get(2));
  EXPECT_EQ(ValueOf<BFloat16>(weights, 2, 0), 5);
  // Back in training nothing of before counts.
  weights.Prepare(Of(Pass::kTraining));
  weights.BeforeUnit(ops_, At(4), 0, spans_);
  EXPECT_EQ(ValueOf<BFloat16>(weights, 0, 0), 1);
}

TEST_F(ComputeWeightsTest, WhatCameInTheTypeIsUsedAsItIs) {
  const std::vector<BFloat16> came(6, ToBFloat16(7));
  // Unit 1's came, and are not among the parameters; unit 0's are to be copied.
  const std::vector<const void*> rounded = {nullptr, nullptr, came.data(), nullptr};
  spans_[2] = {};
  ComputeWeights weights(DType::kBf16, tensors_, {true, false, true, false});
  for (const Pass pass : {Pass::kTraining, Pass::kEvaluation, Pass::kTraining}) {
    LayerContext context = Of(pass);
    context.parameters_version = 4;
    context.rounded_parameters = rounded;
    weights.Prepare(context);
    weights.BeforeUnit(ops_, context, 0, spans_);
    EXPECT_EQ(ValueOf<BFloat16>(weights, 0, 5), 1);
    weights.BeforeUnit(ops_, context, 1, spans_);
    EXPECT_EQ(weights.Get(2), came.data());
  }
  // Where nothing comes so any more, it is copied again.
  spans_[2] = values_[2];
  LayerContext context = At(5);
  weights.Prepare(context);
  weights.BeforeUnit(ops_, context, 1, spans_);
  EXPECT_EQ(ValueOf<BFloat16>(weights, 2, 5), 1);
}

TEST_F(ComputeWeightsTest, F16KeepsElevenBits) {
  values_[0][5] = 1 + 0x1p-10f + 0x1p-13f;
  ComputeWeights weights(DType::kF16, tensors_, {true, false, true, false});
  weights.Prepare(Of(Pass::kTraining));
  weights.BeforeUnit(ops_, At(1), 0, spans_);
  EXPECT_EQ(ValueOf<Float16>(weights, 0, 5), 1 + 0x1p-10f);
}

}  // namespace
}  // namespace muster
