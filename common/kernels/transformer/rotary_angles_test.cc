#include "common/kernels/transformer/rotary_angles.h"

#include <vector>

#include "common/kernels/transformer/rotary.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Scaling = RotaryAngles::Scaling;

void ExpectFrequencies(const RotaryAngles& angles, int64_t head_dim,
                       const std::vector<double>& expected) {
  const std::vector<double> frequencies = RotaryFrequencies(angles, head_dim);
  ASSERT_EQ(frequencies.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(frequencies[i], expected[i], 1e-14 * expected[i]) << i;
  }
}

TEST(RotaryAnglesTest, FrequenciesOfPairs) {
  ExpectFrequencies({.base = 100}, 4, {1, 0.1});
  ExpectFrequencies({.base = 100, .scaling = Scaling::kLinear, .factor = 4}, 4, {0.25, 0.025});
}

// The numbers are of the formulas as Hugging Face's programs publish them, computed apart.
TEST(RotaryAnglesTest, ScaledFrequenciesAreThePublishedOnes) {
  ExpectFrequencies(
      {.base = 500000, .scaling = Scaling::kLlama3, .factor = 8, .original_context = 64}, 16,
      {1, 0.0794030091792082, 0.00470075386635799, 0.000911583092152139, 0.000176776695296637,
       3.42810219595259e-05, 6.64786987118124e-06, 1.28917317215156e-06});
  ExpectFrequencies({.scaling = Scaling::kYarn, .factor = 4, .original_context = 2048}, 16,
                    {1, 0.316227766016838, 0.1, 0.0256935059888681, 0.00625, 0.00138349647632367,
                     0.00025, 7.90569415042095e-05});
  // Both limits are the first pair.
  ExpectFrequencies({.scaling = Scaling::kYarn, .factor = 4, .original_context = 6}, 4,
                    {1, 0.0025});
}

TEST(RotaryAnglesTest, TheAmplitudeIsThatOfSinesAndCosines) {
  std::vector<float> plain(3 * 4), louder(3 * 4);
  FillRotaryTable(3, 4, {}, plain.data());
  FillRotaryTable(3, 4, {.amplitude = 2}, louder.data());
  EXPECT_EQ(plain[0], 1);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(louder[i], 2 * plain[i]);
}

}  // namespace
}  // namespace muster
