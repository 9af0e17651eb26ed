#include "worker/strategy/servers/row_arrays.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(RowArraysTest, WhatIsHeldStaysAndItsMemoryComesBack) {
  RowArrays arrays;
  std::vector<float> values = {1, 2};
  const float* const first_memory = values.data();
  auto first = arrays.Hold(values);
  EXPECT_THAT(*first, ElementsAre(1, 2));
  EXPECT_EQ(first->data(), first_memory);
  values = {3, 4};
  const auto second = arrays.Hold(values);
  EXPECT_THAT(*first, ElementsAre(1, 2));
  first.reset();
  values = {5};
  const auto third = arrays.Hold(values);
  EXPECT_THAT(*third, ElementsAre(5));
  EXPECT_EQ(values.data(), first_memory);
  EXPECT_THAT(*second, ElementsAre(3, 4));
}

TEST(RowArraysTest, HoldersMayOutliveIt) {
  std::optional<RowArrays> arrays(std::in_place);
  std::vector<float> values = {1, 2};
  const auto held = arrays->Hold(values);
  arrays.reset();
  EXPECT_THAT(*held, ElementsAre(1, 2));
}

}  // namespace
}  // namespace muster
