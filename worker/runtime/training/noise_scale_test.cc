#include "worker/runtime/training/noise_scale.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(NoiseScaleTest, IsThatOfTheFormula) {
  NoiseScale scale;
  EXPECT_EQ(scale.examples(), absl::nullopt);
  // With n = 2 and N = 8: |G|² = (8 · 1.5 - 2 · 3) / 6 = 1, S = (3 - 1.5) / (1/2 - 1/8) = 4.
  scale.Add({.squared_norm = 3, .examples = 2}, {.squared_norm = 1.5, .examples = 8});
  EXPECT_DOUBLE_EQ(*scale.examples(), 4);
  // With n = 4 and N = 8: |G|² = 8 · 4 / 4 - 4 · 5 / 4 = 3, S = 1 / (1/8) = 8. Each is smoothed by
  // itself: (0.9 · 4 + 8) / (0.9 · 1 + 3).
  scale.Add({.squared_norm = 5, .examples = 4}, {.squared_norm = 4, .examples = 8});
  EXPECT_DOUBLE_EQ(*scale.examples(), 11.6 / 3.9);
}

TEST(NoiseScaleTest, WhatSaysNothingIsLeftOut) {
  NoiseScale scale;
  scale.Add({.squared_norm = 3, .examples = 8}, {.squared_norm = 3, .examples = 8});
  scale.Add({.squared_norm = 3, .examples = 0}, {.squared_norm = 3, .examples = 8});
  scale.Add({.squared_norm = std::numeric_limits<double>::infinity(), .examples = 2},
            {.squared_norm = 3, .examples = 8});
  EXPECT_EQ(scale.examples(), absl::nullopt);
  // The part's gradient is that of noise alone.
  scale.Add({.squared_norm = 8, .examples = 2}, {.squared_norm = 1, .examples = 8});
  EXPECT_EQ(scale.examples(), absl::nullopt);
}

// Gradients of 50 elements with a known mean and known variances.
TEST(NoiseScaleTest, FindsAKnownNoise) {
  constexpr int kElements = 50, kPart = 4, kWhole = 32;
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  double squared = 0, variance = 0;
  std::vector<double> mean(kElements), deviation(kElements);
  for (int i = 0; i < kElements; ++i) {
    mean[i] = std::sin(i);
    deviation[i] = 1 + i % 5;
    squared += mean[i] * mean[i];
    variance += deviation[i] * deviation[i];
  }
  NoiseScale scale;
  double sum = 0;
  constexpr int kSteps = 2000;
  for (int step = 0; step < kSteps; ++step) {
    double part = 0, whole = 0;
    for (int i = 0; i < kElements; ++i) {
      double total = 0;
      for (int example = 0; example < kWhole; ++example) {
        total += mean[i] + deviation[i] * normal(random);
        if (example + 1 == kPart) part += total * total / (kPart * kPart);
      }
      whole += total * total / (kWhole * kWhole);
    }
    scale.Add({.squared_norm = part, .examples = kPart},
              {.squared_norm = whole, .examples = kWhole});
    if (step >= 100) sum += *scale.examples();
  }
  EXPECT_NEAR(sum / (kSteps - 100), variance / squared, 0.1 * variance / squared);
}

}  // namespace
}  // namespace muster
