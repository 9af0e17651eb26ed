#include "worker/data/sampling/permutation.h"

#include <cmath>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

std::vector<int64_t> All(uint64_t seed, uint64_t epoch, int64_t n) {
  const Permutation permutation(seed, epoch, n);
  std::vector<int64_t> images;
  for (int64_t i = 0; i < n; ++i) images.push_back(permutation(i));
  return images;
}

TEST(PermutationTest, TakesEachValueOnce) {
  for (const int64_t n : {1, 2, 3, 15, 16, 17, 100, 255, 256, 257, 1000, 65537, 200'000}) {
    std::vector<bool> seen(n);
    for (const int64_t image : All(1, 2, n)) {
      ASSERT_GE(image, 0);
      ASSERT_LT(image, n);
      ASSERT_FALSE(seen[image]) << image << " twice in a permutation of " << n;
      seen[image] = true;
    }
  }
}

TEST(PermutationTest, IsAFunctionOfSeedAndEpoch) {
  EXPECT_EQ(All(1, 2, 1000), All(1, 2, 1000));
  EXPECT_NE(All(1, 2, 1000), All(1, 3, 1000));
  EXPECT_NE(All(1, 2, 1000), All(2, 2, 1000));
}

TEST(PermutationTest, HandlesTheLargestSize) {
  const int64_t n = int64_t{1} << 62;
  const Permutation permutation(1, 2, n);
  std::set<int64_t> images;
  for (const int64_t position : {int64_t{0}, int64_t{1}, n / 2, n - 1}) {
    const int64_t image = permutation(position);
    EXPECT_GE(image, 0);
    EXPECT_LT(image, n);
    images.insert(image);
  }
  EXPECT_EQ(images.size(), 4);
}

// The order is part of what a job is: one that goes on after an upgrade must not change it, and
// tests/reference/train_transformer.py, where these values are from, follows it too.
TEST(PermutationTest, IsTheOneThatIsWrittenDown) {
  const auto first = [](const Permutation& permutation, int64_t count) {
    std::vector<int64_t> images;
    for (int64_t i = 0; i < count; ++i) images.push_back(permutation(i));
    return images;
  };
  EXPECT_EQ(first(Permutation(1, 0, 3921), 6),
            (std::vector<int64_t>{1307, 2347, 3450, 1682, 54, 1239}));
  EXPECT_EQ(first(Permutation(7, 3, 1'000'000'007), 4),
            (std::vector<int64_t>{94242868, 248513085, 750745573, 273420255}));
}

// Over many epochs every position takes every value equally often: Pearson's statistic of the n x n
// counts, with (n - 1)^2 degrees of freedom, lies within five standard deviations of its mean.
TEST(PermutationTest, IsUniformOverEpochs) {
  for (const int64_t n : {2, 3, 10, 50}) {
    constexpr int kEpochs = 20'000;
    std::vector<int> counts(n * n);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const Permutation permutation(5, epoch, n);
      for (int64_t i = 0; i < n; ++i) ++counts[i * n + permutation(i)];
    }
    const double expected = static_cast<double>(kEpochs) / n;
    double statistic = 0;
    for (const int count : counts) statistic += (count - expected) * (count - expected) / expected;
    const double degrees = static_cast<double>((n - 1) * (n - 1));
    EXPECT_LT(statistic, degrees + 5 * std::sqrt(2 * degrees)) << "n = " << n;
  }
}

// Neighbours end up unrelated: the lag-one correlation of a shuffled sequence is about
// normal with variance 1 / n.
TEST(PermutationTest, NeighboursAreUnrelated) {
  constexpr int64_t n = 100'000;
  const std::vector<int64_t> images = All(9, 0, n);
  const double mean = (n - 1) / 2.0;
  const double variance = (static_cast<double>(n) * n - 1) / 12;
  double covariance = 0;
  for (int64_t i = 0; i + 1 < n; ++i) covariance += (images[i] - mean) * (images[i + 1] - mean);
  EXPECT_LT(std::abs(covariance / n / variance), 5 / std::sqrt(n));
}

}  // namespace
}  // namespace muster
