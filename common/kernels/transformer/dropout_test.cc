#include "common/kernels/transformer/dropout.h"

#include <cmath>
#include <vector>

#include "common/base/philox.h"
#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// The documented definition, from the generator itself.
float Factor(uint64_t seed, absl::string_view name, uint64_t clock, float probability,
             uint64_t example, uint64_t e) {
  const auto words = Philox(seed, "dropout", name).At(clock << 32 | e / 8, example);
  const uint32_t word = words[e / 2 % 4];
  const uint32_t bits = e % 2 == 0 ? word & 0xffff : word >> 16;
  const uint32_t threshold = static_cast<uint32_t>(std::lround(probability * 65536));
  return bits < threshold ? 0.0f : static_cast<float>(65536.0 / (65536 - threshold));
}

TEST(DropoutFactorsTest, EqualTheirDefinition) {
  const DropoutMask mask(42, "blocks.3.attention", 77, 0.3f);
  const uint64_t example = (uint64_t{5} << 32) + 9;
  ForEachInstructionSet([&] {
    for (const int64_t begin : {0, 8, 13, 1000, 123456}) {
      for (const int64_t count : {0, 1, 7, 8, 127, 128, 129, 700}) {
        std::vector<float> factors(count + 1, -1);
        DropoutFactors(mask, example, begin, count, factors.data());
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(factors[i], Factor(42, "blocks.3.attention", 77, 0.3f, example, begin + i))
              << begin << " + " << i;
        }
        ASSERT_EQ(factors[count], -1) << "wrote past the end";
      }
    }
  });
}

TEST(DropoutFactorsTest, DropsItsShareAndKeepsTheMean) {
  constexpr int64_t kN = 1 << 20;
  for (const float probability : {0.0f, 0.1f, 0.5f, 0.9f}) {
    std::vector<float> factors(kN);
    DropoutFactors(DropoutMask(1, "x", 2, probability), 3, 0, kN, factors.data());
    double sum = 0;
    int64_t dropped = 0;
    for (const float factor : factors) {
      sum += factor;
      dropped += factor == 0;
    }
    const double deviation = std::sqrt(probability * (1 - probability) / kN);
    EXPECT_NEAR(static_cast<double>(dropped) / kN, probability, 5 * deviation + 1e-5);
    EXPECT_NEAR(sum / kN, 1, 5 * deviation / (1 - probability) + 1e-5);
  }
}

TEST(DropoutFactorsTest, EveryPartOfTheKeyCounts) {
  const auto factors = [](uint64_t seed, absl::string_view name, uint64_t clock, uint64_t example) {
    std::vector<float> result(256);
    DropoutFactors(DropoutMask(seed, name, clock, 0.5f), example, 0, 256, result.data());
    return result;
  };
  const auto base = factors(1, "a", 2, 3);
  EXPECT_EQ(factors(1, "a", 2, 3), base);
  EXPECT_NE(factors(2, "a", 2, 3), base);
  EXPECT_NE(factors(1, "b", 2, 3), base);
  EXPECT_NE(factors(1, "a", 3, 3), base);
  EXPECT_NE(factors(1, "a", 2, 4), base);
  EXPECT_NE(factors(1, "a", 2, 3 + (uint64_t{1} << 32)), base);
}

TEST(DropoutTest, MultipliesHoweverTheBatchIsCut) {
  const int64_t examples = 5, size = 9001;
  const DropoutMask mask(4, "embedding", 6, 0.2f);
  const auto x = RandomArray(examples * size, 1);
  std::vector<float> wanted(x.size());
  for (int64_t i = 0; i < examples * size; ++i) {
    wanted[i] = x[i] * Factor(4, "embedding", 6, 0.2f, 70 + i / size, i % size);
  }
  ForEachInstructionSet([&] {
    ExpectSameBitsOnAnyThreads([&] {
      std::vector<float> y(x.size());
      Dropout(mask, {.elements = examples * size, .size = size, .first_example = 70}, x.data(),
              y.data());
      EXPECT_TRUE(y == wanted);
      std::vector<float> in_place = x;
      for (int64_t i = 0; i < examples; ++i) {
        Dropout(mask,
                {.elements = size, .size = size, .first_example = static_cast<uint64_t>(70 + i)},
                in_place.data() + i * size, in_place.data() + i * size);
      }
      EXPECT_TRUE(in_place == wanted);
      // Parts that begin within an example and end within another.
      std::vector<float> parts = x;
      int64_t begin = 0;
      for (const int64_t end : {1, 100, 9001, 9002, 30000, 36004, 45005}) {
        Dropout(mask,
                {.elements = end - begin,
                 .size = size,
                 .first_example = static_cast<uint64_t>(70 + begin / size),
                 .first_element = begin % size},
                parts.data() + begin, parts.data() + begin);
        begin = end;
      }
      EXPECT_TRUE(parts == wanted);
      return y;
    });
  });
}

}  // namespace
}  // namespace muster
