#include "worker/data/datasets/synthetic_classification.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr SyntheticClassificationOptions kOptions = {
    .examples = 5000, .features = 6, .classes = 4, .seed = 3};

TEST(SyntheticClassificationTest, ExamplesLieAroundTheMeanOfTheirClass) {
  const auto dataset = SyntheticClassification::Create(kOptions);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo& info = (*dataset)->info();
  EXPECT_EQ(info.examples, 5000);
  EXPECT_EQ(info.dense_features, 6);
  EXPECT_EQ(info.classes, 4);
  EXPECT_FALSE(info.sparse);
  std::vector<int64_t> all(5000);
  std::iota(all.begin(), all.end(), 0);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read(all, batch).ok());
  ASSERT_THAT(batch.dense, SizeIs(5000 * 6));
  std::vector<double> counts(4);
  std::vector<double> sums(4 * 6);
  double squares = 0;
  for (int i = 0; i < 5000; ++i) {
    const int32_t label = batch.labels[i];
    ++counts.at(label);
    for (int j = 0; j < 6; ++j) {
      const double noise = batch.dense[i * 6 + j] - (*dataset)->mean(label)[j];
      sums[label * 6 + j] += noise;
      squares += noise * noise;
    }
  }
  for (int c = 0; c < 4; ++c) {
    EXPECT_NEAR(counts[c], 1250, 5 * std::sqrt(1250 * 0.75));
    for (int j = 0; j < 6; ++j) {
      EXPECT_NEAR(sums[c * 6 + j] / counts[c], 0, 5 / std::sqrt(counts[c]));
    }
  }
  EXPECT_NEAR(squares / (5000 * 6), 1, 0.05);
}

TEST(SyntheticClassificationTest, AnExampleDependsOnSeedAndIndexAlone) {
  const auto dataset = SyntheticClassification::Create(kOptions).value();
  SyntheticClassificationOptions reseeded = kOptions;
  reseeded.seed = 4;
  const auto other = SyntheticClassification::Create(reseeded).value();
  Batch one;
  Batch two;
  ASSERT_TRUE(dataset->Read({4, 8}, one).ok());
  ASSERT_TRUE(SyntheticClassification::Create(kOptions).value()->Read({8}, two).ok());
  EXPECT_EQ(std::vector<float>(one.dense.begin() + 6, one.dense.end()), two.dense);
  EXPECT_EQ(one.labels[1], two.labels[0]);
  ASSERT_TRUE(other->Read({8}, two).ok());
  EXPECT_NE(std::vector<float>(one.dense.begin() + 6, one.dense.end()), two.dense);
  EXPECT_NE(dataset->fingerprint(), other->fingerprint());
}

TEST(SyntheticClassificationTest, RefusesFieldsOutOfRangeByName) {
  const auto expect_error = [](const SyntheticClassificationOptions& options,
                               const std::string& text) {
    const auto dataset = SyntheticClassification::Create(options);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(dataset.status().message()), HasSubstr(text));
  };
  expect_error({.examples = 0, .features = 1, .classes = 2}, "examples is 0");
  expect_error({.examples = 1, .features = 0, .classes = 2}, "features is 0");
  expect_error({.examples = 1, .features = 1, .classes = 1}, "classes is 1");
  expect_error({.examples = 1, .features = 4'000'000'000, .classes = 4'000'000'000},
               "their product");
}

}  // namespace
}  // namespace muster
