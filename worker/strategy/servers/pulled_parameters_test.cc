#include "worker/strategy/servers/pulled_parameters.h"

#include <cstring>

#include "common/partition/pulled_types.h"
#include "common/partition/unit_places.h"
#include "common/tensor/half.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNull;

// A unit looked up in f32, and one whose matrices are multiplied with in `type` and whose vector is
// not; blocks of 4 elements on 2 partitions.
class PulledParametersTest : public ::testing::TestWithParam<DType> {
 protected:
  PulledParametersTest() {
    tensors_ = {{.name = "embedding", .shape = {5}},
                {.name = "a", .shape = {2, 3}, .unit = 1, .compute = GetParam()},
                {.name = "v", .shape = {3}, .unit = 1, .weight_decay = false},
                {.name = "none", .shape = {0, 3}, .unit = 1, .compute = GetParam()},
                {.name = "b", .shape = {7}, .unit = 1, .compute = GetParam()},
                {.name = "tied", .shape = {5}, .unit = 2, .tied_to = "embedding"}};
    layout_.emplace(
        DenseLayout::Create(tensors_, {.block_bytes = 4 * sizeof(float), .partitions = 2}).value());
    for (const auto& unit : DenseRunsByUnit(*layout_, 3, 1 << 20)) {
      runs_.insert(runs_.end(), unit.begin(), unit.end());
    }
    for (uint64_t i = 0; i < layout_->elements(); ++i) values_.push_back(1 + 0.001f * i);
  }

  PulledParameters Make() {
    return PulledParameters(*layout_, tensors_, PulledTypes(tensors_), UnitPlaces::Holding::kWhole);
  }

  // As a server answers a pull.
  Payload Answer(const DenseRun& run, DType wire) const {
    const std::vector<float> values(values_.begin() + run.begin, values_.begin() + run.end);
    if (wire == DType::kF32) return Payload::Of(values);
    std::vector<uint16_t> bits(values.size());
    RoundToHalf(wire, values, bits.data());
    return Payload::Of(std::move(bits));
  }

  std::vector<float> ValuesOf(int tensor) const {
    const auto first = values_.begin() + layout_->tensor_offset(tensor);
    return {first, first + tensors_[tensor].elements()};
  }

  static std::vector<uint16_t> Rounded(DType type, const std::vector<float>& values) {
    std::vector<uint16_t> bits(values.size());
    RoundToHalf(type, values, bits.data());
    return bits;
  }

  std::vector<TensorSpec> tensors_;
  absl::optional<DenseLayout> layout_;
  std::vector<DenseRun> runs_;
  std::vector<float> values_;
};

TEST_P(PulledParametersTest, EachTensorIsHeldInOneType) {
  const PulledParameters pulled = Make();
  std::vector<size_t> sizes;
  for (const auto& span : pulled.parameters().values) sizes.push_back(span.size());
  EXPECT_THAT(sizes, ElementsAre(5, 0, 3, 0, 0, 5));
  EXPECT_EQ(pulled.parameters().values[5].data(), pulled.parameters().values[0].data());
  for (const int tensor : {0, 2, 3, 5})
    EXPECT_EQ(pulled.parameters().rounded[tensor], nullptr) << tensor;
  // Side by side, as in the flat space.
  EXPECT_EQ(static_cast<const uint16_t*>(pulled.parameters().rounded[4]) -
                static_cast<const uint16_t*>(pulled.parameters().rounded[1]),
            6);
}

TEST_P(PulledParametersTest, PlacesTakeAnswersAsTheyCome) {
  PulledParameters pulled = Make();
  for (const DenseRun& run : runs_) {
    const Payload answer = Answer(run, pulled.TypeOf(run));
    const absl::Span<std::byte> place = pulled.PlaceOf(run);
    ASSERT_EQ(place.size(), answer.size());
    answer.CopyTo(place.data());
  }
  for (const int tensor : {0, 2, 5}) {
    const int owner = tensor == 5 ? 0 : tensor;
    EXPECT_EQ(pulled.parameters().values[tensor], absl::MakeConstSpan(ValuesOf(owner))) << tensor;
  }
  for (const int tensor : {1, 4}) {
    const std::vector<uint16_t> expected = Rounded(GetParam(), ValuesOf(tensor));
    EXPECT_EQ(
        std::memcmp(pulled.parameters().rounded[tensor], expected.data(), 2 * expected.size()), 0);
  }
}

// A wire of 16 bits carries all, and what is kept in another type is made of that.
TEST_P(PulledParametersTest, WhatCameInAnotherTypeIsConverted) {
  for (const DType wire : {DType::kF32, DType::kBf16, DType::kF16}) {
    PulledParameters pulled = Make();
    for (const DenseRun& run : runs_) pulled.Take(run, wire, Answer(run, wire));
    const auto as_sent = [&](int tensor) {
      std::vector<float> values = ValuesOf(tensor);
      if (wire == DType::kF32) return values;
      const std::vector<uint16_t> bits = Rounded(wire, values);
      WidenHalf(wire, reinterpret_cast<const std::byte*>(bits.data()), absl::MakeSpan(values));
      return values;
    };
    for (const int tensor : {0, 2}) {
      EXPECT_EQ(pulled.parameters().values[tensor], absl::MakeConstSpan(as_sent(tensor)))
          << Name(wire);
    }
    for (const int tensor : {1, 4}) {
      const std::vector<uint16_t> expected = Rounded(GetParam(), as_sent(tensor));
      EXPECT_EQ(
          std::memcmp(pulled.parameters().rounded[tensor], expected.data(), 2 * expected.size()), 0)
          << Name(wire);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PulledParametersTest, ::testing::Values(DType::kBf16, DType::kF16),
                         [](const auto& info) { return Name(info.param); });

TEST(PulledParametersOfF32Test, AreTheFlatSpace) {
  const std::vector<TensorSpec> tensors = {{.name = "a", .shape = {3}, .weight_decay = false},
                                           {.name = "b", .shape = {4}},
                                           {.name = "c", .shape = {2}, .unit = 1}};
  const DenseLayout layout = DenseLayout::Create(tensors, {}).value();
  const PulledParameters pulled(layout, tensors, PulledTypes(tensors), UnitPlaces::Holding::kWhole);
  EXPECT_THAT(pulled.parameters().rounded, Each(IsNull()));
  EXPECT_EQ(pulled.parameters().values[0].data() - pulled.parameters().values[1].data(), 4);
  // The next part begins at a multiple of 64 bytes.
  EXPECT_EQ(pulled.parameters().values[2].data() - pulled.parameters().values[1].data(), 16);
}

TEST(PulledParametersInFlightTest, UnitsTakeTwoPlacesByTurns) {
  std::vector<TensorSpec> tensors;
  for (uint32_t unit = 0; unit < 4; ++unit) {
    tensors.push_back({.name = std::string(1, 'a' + unit), .shape = {20 + unit}, .unit = unit});
  }
  const DenseLayout layout = DenseLayout::Create(tensors, {}).value();
  PulledParameters pulled(layout, tensors, PulledTypes(tensors), UnitPlaces::Holding::kInFlight);
  const ParameterSpans values = pulled.parameters().values;
  EXPECT_EQ(values[2].data(), values[0].data());
  EXPECT_EQ(values[3].data(), values[1].data());
  EXPECT_NE(values[1].data(), values[0].data());
  const auto runs = DenseRunsByUnit(layout, 4, 1 << 20);
  for (const int unit : {0, 1, 2}) {
    const DenseRun& run = runs[unit][0];
    pulled.Take(run, DType::kF32, Payload::Of(std::vector<float>(run.elements(), 1.0f + unit)));
  }
  EXPECT_THAT(values[1], Each(2));
  EXPECT_THAT(values[2], Each(3));
}

// Tensors of a group that has both types are f32, and have room for that.
TEST(PulledParametersInFlightTest, TensorsThatAreKeptInAnotherTypeThanTheyAreComputedWithHaveRoom) {
  const std::vector<TensorSpec> tensors = {
      {.name = "a", .shape = {33}, .compute = DType::kBf16},
      {.name = "b", .shape = {5}},
      {.name = "v", .shape = {7}, .weight_decay = false, .compute = DType::kBf16},
      {.name = "c", .shape = {9}, .unit = 1, .compute = DType::kBf16}};
  const DenseLayout layout = DenseLayout::Create(tensors, {}).value();
  PulledParameters pulled(layout, tensors, PulledTypes(tensors), UnitPlaces::Holding::kInFlight);
  for (const auto& unit : DenseRunsByUnit(layout, 2, 1 << 20)) {
    for (const DenseRun& run : unit) {
      pulled.Take(run, DType::kF32,
                  Payload::Of(std::vector<float>(run.elements(), 1.0f + run.begin)));
    }
  }
  EXPECT_THAT(pulled.parameters().values[0], Each(1));
  EXPECT_THAT(pulled.parameters().values[1], Each(1 + layout.tensor_offset(1)));
  const auto* const rounded = static_cast<const uint16_t*>(pulled.parameters().rounded[2]);
  std::vector<float> widened(7);
  WidenHalf(DType::kBf16, reinterpret_cast<const std::byte*>(rounded), absl::MakeSpan(widened));
  EXPECT_THAT(widened, Each(1 + layout.tensor_offset(2)));
}

}  // namespace
}  // namespace muster
