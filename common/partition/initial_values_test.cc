#include "common/partition/initial_values.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr uint64_t kSeed = 17;

TensorSpec InitializedTensor(std::string name, Initializer initializer) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.shape = {200, 500};
  tensor.initializer = initializer;
  return tensor;
}

std::vector<float> Values(const TensorSpec& tensor, uint64_t begin, size_t count,
                          uint64_t seed = kSeed) {
  std::vector<float> values(count);
  InitialValues(tensor, seed, begin, absl::MakeSpan(values));
  return values;
}

std::vector<float> Row(const SparseTableSpec& table, uint64_t key, uint64_t seed = kSeed) {
  std::vector<float> row(table.dim);
  InitialRow(table, seed, key, absl::MakeSpan(row));
  return row;
}

struct Moments {
  double mean = 0;
  double variance = 0;
  double correlation = 0;  // Of neighbours.
};

Moments MomentsOf(const std::vector<float>& values) {
  Moments moments;
  for (float x : values) moments.mean += x;
  moments.mean /= values.size();
  for (size_t i = 0; i < values.size(); ++i) {
    moments.variance += std::pow(values[i] - moments.mean, 2);
    if (i > 0) {
      moments.correlation += (values[i] - moments.mean) * (values[i - 1] - moments.mean);
    }
  }
  moments.correlation /= moments.variance;
  moments.variance /= values.size();
  return moments;
}

class RandomInitializerTest : public testing::TestWithParam<Initializer::Kind> {
 protected:
  const TensorSpec tensor_ = InitializedTensor("layer/w", {.kind = GetParam(), .scale = 0.25f});
  const SparseTableSpec table_ = {"rows", 10, {.kind = GetParam(), .scale = 0.25f}, true};
};

TEST_P(RandomInitializerTest, AnyIntervalAgreesWithTheWhole) {
  const std::vector<float> whole = Values(tensor_, 0, 1000);
  for (size_t begin : {0, 1, 2, 3, 4, 5, 127, 998}) {
    for (size_t count : {0, 1, 2, 3, 4, 5, 9, 100}) {
      const size_t end = std::min<size_t>(begin + count, whole.size());
      EXPECT_THAT(Values(tensor_, begin, end - begin),
                  ElementsAreArray(whole.begin() + begin, whole.begin() + end))
          << "begin " << begin << ", count " << count;
    }
  }
}

TEST_P(RandomInitializerTest, DependsOnSeedNameAndKey) {
  TensorSpec other = tensor_;
  other.name = "layer/v";
  EXPECT_NE(Values(tensor_, 0, 4), Values(other, 0, 4));
  EXPECT_NE(Values(tensor_, 0, 4), Values(tensor_, 0, 4, kSeed + 1));
  EXPECT_NE(Values(tensor_, 0, 4), Values(tensor_, 4, 4));
  EXPECT_EQ(Row(table_, 5), Row(table_, 5));
  EXPECT_NE(Row(table_, 5), Row(table_, 6));
  EXPECT_NE(Row(table_, 5), Row(table_, 5, kSeed + 1));
}

TEST_P(RandomInitializerTest, HasTheRightMoments) {
  const double variance = GetParam() == Initializer::Kind::kUniform ? 0.25 * 0.25 / 3 : 0.25 * 0.25;
  std::vector<float> rows;
  for (uint64_t key = 0; key < 10000; ++key) {
    const std::vector<float> row = Row(table_, key * 1024);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  for (const std::vector<float>& values : {Values(tensor_, 0, 100000), rows}) {
    const Moments moments = MomentsOf(values);
    // Four standard deviations of a mean over 100,000 values.
    EXPECT_NEAR(moments.mean, 0, 4 * std::sqrt(variance / 1e5));
    EXPECT_NEAR(moments.variance / variance, 1, 0.02);
    EXPECT_NEAR(moments.correlation, 0, 0.013);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RandomInitializerTest,
                         testing::Values(Initializer::Kind::kUniform, Initializer::Kind::kNormal),
                         [](const auto& info) {
                           return info.param == Initializer::Kind::kUniform ? "Uniform" : "Normal";
                         });

TEST(InitialValuesTest, UniformStaysInItsHalfOpenRange) {
  const auto values = Values(
      InitializedTensor("w", {.kind = Initializer::Kind::kUniform, .scale = 0.1f}), 0, 100000);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -0.1f);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 0.1f);
}

TEST(InitialValuesTest, NormalHasNormalTails) {
  const auto values =
      Values(InitializedTensor("w", {.kind = Initializer::Kind::kNormal, .scale = 2}), 0, 100000);
  const auto beyond = [&](float deviations) {
    return std::count_if(values.begin(), values.end(),
                         [&](float x) { return std::fabs(x) > 2 * deviations; });
  };
  EXPECT_NEAR(beyond(1), 31731, 600);
  EXPECT_NEAR(beyond(2), 4550, 270);
  EXPECT_NEAR(beyond(3), 270, 66);
}

TEST(InitialValuesTest, ConstantIsItsValueEverywhere) {
  const Initializer one = {.kind = Initializer::Kind::kConstant, .value = 1.5f};
  EXPECT_THAT(Values(InitializedTensor("w", one), 3, 10), Each(1.5f));
  EXPECT_THAT(Row({"t", 7, one, true}, 99), Each(1.5f));
}

// The numbering that the header states, on top of a generator with known answers of its own.
TEST(InitialValuesTest, ElementsAreLanesOfPhilox) {
  const auto unit = [](uint32_t bits) { return (bits >> 8) / 16777216.0; };
  const auto uniform =
      Values(InitializedTensor("w", {.kind = Initializer::Kind::kUniform, .scale = 1}), 4, 4);
  const auto bits = Philox(kSeed, "init", "w").At(1, 0);
  for (int lane = 0; lane < 4; ++lane) EXPECT_EQ(uniform[lane], 2 * unit(bits[lane]) - 1);

  const auto row = Row({"t", 8, {.kind = Initializer::Kind::kNormal, .scale = 3}, true}, 77);
  const auto row_bits = Philox(kSeed, "init", "t").At(1, 77);
  const double radius = 3 * std::sqrt(-2 * std::log(1 - unit(row_bits[2])));
  const double angle = 2 * std::acos(-1.0) * unit(row_bits[3]);
  EXPECT_NEAR(row[6], radius * std::cos(angle), 1e-5);
  EXPECT_NEAR(row[7], radius * std::sin(angle), 1e-5);
}

// Rows that nobody has touched yet are not stored anywhere: their values must never change.
TEST(InitialValuesTest, ValuesAreStable) {
  const auto uniform =
      Values(InitializedTensor("w", {.kind = Initializer::Kind::kUniform, .scale = 1}), 0, 3);
  EXPECT_THAT(uniform, Pointwise(FloatNear(1e-6), {0.837293f, -0.707555f, 0.49047f}));
  const auto normal =
      Values(InitializedTensor("w", {.kind = Initializer::Kind::kNormal, .scale = 1}), 5, 1);
  EXPECT_NEAR(normal[0], 0.1621106f, 1e-6);
}

}  // namespace
}  // namespace muster
