#include "worker/nn/low_precision_copies.h"

#include <string>

#include "common/tensor/bfloat16.h"
#include "common/tensor/float16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Two units, each with a matrix that is computed with in `type` and a vector that is not.
class LowPrecisionCopiesTest : public ::testing::TestWithParam<DType> {
 protected:
  LowPrecisionCopiesTest() {
    for (const uint32_t unit : {0u, 1u}) {
      tensors_.push_back({.name = "m" + std::to_string(unit),
                          .shape = {2, 3},
                          .unit = unit,
                          .compute = GetParam()});
      tensors_.push_back({.name = "v" + std::to_string(unit), .shape = {2}, .unit = unit});
    }
    for (const TensorSpec& tensor : tensors_) values_.emplace_back(tensor.elements(), 1.0f);
    for (const std::vector<float>& value : values_) spans_.push_back(value);
  }

  static float ValueOf(const LowPrecisionCopies& copies, int tensor, int64_t i) {
    const void* const rounded = copies.parameters().rounded[tensor];
    return GetParam() == DType::kBf16 ? ToFloat(static_cast<const BFloat16*>(rounded)[i])
                                      : ToFloat(static_cast<const Float16*>(rounded)[i]);
  }

  std::vector<TensorSpec> tensors_;
  std::vector<std::vector<float>> values_;
  std::vector<absl::Span<const float>> spans_;
};

TEST_P(LowPrecisionCopiesTest, AreMadeOfWhatIsComputedWithIn16Bits) {
  values_[0][5] = 1 + 0x1p-10f + 0x1p-13f;
  LowPrecisionCopies copies(tensors_, {spans_, {}});
  copies.Refresh(0);
  copies.Refresh(1);
  EXPECT_EQ(ValueOf(copies, 0, 5), GetParam() == DType::kBf16 ? 1 : 1 + 0x1p-10f);
  EXPECT_EQ(ValueOf(copies, 2, 0), 1);
  EXPECT_EQ(copies.parameters().rounded[1], nullptr);
  EXPECT_EQ(copies.parameters().rounded[3], nullptr);
  EXPECT_THAT(copies.parameters().values[1], ElementsAre(1, 1));
}

TEST_P(LowPrecisionCopiesTest, AreMadeOncePerUnitUntilTheyAreOutOfDate) {
  LowPrecisionCopies copies(tensors_, {spans_, {}});
  copies.Refresh(0);
  values_[0][5] = values_[2][5] = 2;
  copies.Refresh(0);
  copies.Refresh(1);
  EXPECT_EQ(ValueOf(copies, 0, 5), 1);
  EXPECT_EQ(ValueOf(copies, 2, 5), 2);
  copies.Outdate();
  copies.Refresh(0);
  EXPECT_EQ(ValueOf(copies, 0, 5), 2);
  copies.Refresh(7);  // A unit without tensors.
}

TEST_P(LowPrecisionCopiesTest, WhatIsHeldInTheTypeIsHandedOutAsItIs) {
  const uint16_t held[6] = {};
  const std::vector<const void*> rounded = {nullptr, nullptr, held, nullptr};
  spans_[2] = {};
  LowPrecisionCopies copies(tensors_, {spans_, rounded});
  copies.Refresh(0);
  copies.Refresh(1);
  EXPECT_EQ(ValueOf(copies, 0, 5), 1);
  EXPECT_EQ(copies.parameters().rounded[2], held);
}

INSTANTIATE_TEST_SUITE_P(Types, LowPrecisionCopiesTest,
                         ::testing::Values(DType::kBf16, DType::kF16));

}  // namespace
}  // namespace muster
