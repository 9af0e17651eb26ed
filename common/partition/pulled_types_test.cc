#include "common/partition/pulled_types.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

constexpr DType kF32 = DType::kF32, kBf16 = DType::kBf16, kF16 = DType::kF16;

TensorSpec Matrix(const std::string& name, uint32_t unit, DType compute) {
  return {.name = name, .shape = {2, 3}, .unit = unit, .compute = compute};
}

TensorSpec Vector(const std::string& name, uint32_t unit) {
  return {.name = name, .shape = {3}, .unit = unit, .weight_decay = false};
}

TEST(PulledTypesTest, MatricesAreOfTheirTypeAndVectorsBesideThemNot) {
  EXPECT_THAT(PulledTypes({Matrix("a", 0, kBf16), Vector("b", 0), Matrix("c", 0, kBf16),
                           Matrix("d", 1, kF32), Matrix("e", 2, kF16)}),
              ElementsAre(kBf16, kF32, kBf16, kF32, kF16));
  EXPECT_THAT(PulledTypes({}), ElementsAre());
}

TEST(PulledTypesTest, AGroupOfTwoTypesIsF32) {
  EXPECT_THAT(PulledTypes({Matrix("a", 0, kBf16), Matrix("b", 0, kF32), Matrix("c", 1, kBf16)}),
              ElementsAre(kF32, kF32, kBf16));
  EXPECT_THAT(PulledTypes({Matrix("a", 0, kBf16), Matrix("b", 0, kF16), Matrix("c", 0, kBf16)}),
              ElementsAre(kF32, kF32, kF32));
}

TEST(PulledTypesTest, WhatIsTiedCountsWhereItsOwnerIs) {
  // As of a transformer: looked up in f32, and multiplied with in 16 bits.
  std::vector<TensorSpec> tensors = {Matrix("embedding", 0, kF32), Matrix("a", 1, kBf16),
                                     Matrix("head", 2, kBf16)};
  tensors[2].tied_to = "embedding";
  EXPECT_THAT(PulledTypes(tensors), ElementsAre(kF32, kBf16, kF32));
  tensors[0].compute = kBf16;
  EXPECT_THAT(PulledTypes(tensors), ElementsAre(kBf16, kBf16, kBf16));
  tensors[2].compute = kF32;
  EXPECT_THAT(PulledTypes(tensors), ElementsAre(kF32, kBf16, kF32));
}

}  // namespace
}  // namespace muster
