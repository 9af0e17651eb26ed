#include "worker/data/datasets/synthetic_clicks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr SyntheticClicksOptions kClicksOptions = {
    .examples = 20'000, .fields = 5, .cardinality = 100, .numeric = 3, .seed = 7};

std::vector<int64_t> FirstExamples(int64_t count) {
  std::vector<int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

TEST(SyntheticClicksTest, HasTheShapeAskedFor) {
  const auto dataset = SyntheticClicks::Create(kClicksOptions);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo& info = (*dataset)->info();
  EXPECT_EQ(info.examples, 20'000);
  EXPECT_EQ(info.dense_features, 3);
  EXPECT_TRUE(info.sparse);
  EXPECT_EQ(info.fields, 5);
  EXPECT_EQ(info.classes, 2);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({19'999, 3}, batch).ok());
  EXPECT_EQ(batch.examples, 2);
  EXPECT_THAT(batch.dense, SizeIs(6));
  EXPECT_THAT(batch.offsets, ElementsAre(0, 5, 10));
  EXPECT_THAT(batch.keys, SizeIs(10));
  EXPECT_THAT(batch.values, Each(1.0f));
  EXPECT_THAT(batch.labels, SizeIs(2));
}

TEST(SyntheticClicksTest, AnExampleDependsOnSeedAndIndexAlone) {
  const auto dataset = SyntheticClicks::Create(kClicksOptions).value();
  const auto again = SyntheticClicks::Create(kClicksOptions).value();
  Batch one;
  Batch two;
  ASSERT_TRUE(dataset->Read({5, 9}, one).ok());
  ASSERT_TRUE(again->Read({9}, two).ok());
  EXPECT_EQ(std::vector<uint64_t>(one.keys.begin() + 5, one.keys.end()), two.keys);
  EXPECT_EQ(std::vector<float>(one.dense.begin() + 3, one.dense.end()), two.dense);
  EXPECT_EQ(one.labels[1], two.labels[0]);
  EXPECT_EQ(dataset->fingerprint(), again->fingerprint());
  SyntheticClicksOptions reseeded = kClicksOptions;
  reseeded.seed = 8;
  const auto other = SyntheticClicks::Create(reseeded).value();
  ASSERT_TRUE(other->Read({9}, two).ok());
  EXPECT_NE(std::vector<float>(one.dense.begin() + 3, one.dense.end()), two.dense);
  EXPECT_NE(dataset->fingerprint(), other->fingerprint());
}

TEST(SyntheticClicksTest, FieldValuesFollowThePowerLaw) {
  SyntheticClicksOptions options = kClicksOptions;
  options.fields = 1;
  const auto dataset = SyntheticClicks::Create(options).value();
  Batch batch;
  ASSERT_TRUE(dataset->Read(FirstExamples(20'000), batch).ok());
  std::map<uint64_t, int> count_by_key;
  for (const uint64_t key : batch.keys) ++count_by_key[key];
  EXPECT_EQ(count_by_key.size(), 100);
  std::vector<int> counts;
  for (const auto& [key, count] : count_by_key) counts.push_back(count);
  std::sort(counts.rbegin(), counts.rend());
  for (const int value : {0, 1, 4}) {
    const double expected = 20'000 * std::log((value + 2.0) / (value + 1.0)) / std::log(101.0);
    EXPECT_NEAR(counts[value], expected, 5 * std::sqrt(expected)) << "value " << value;
  }
}

TEST(SyntheticClicksTest, LabelsAreDrawnWithTheTrueProbabilities) {
  const auto dataset = SyntheticClicks::Create(kClicksOptions).value();
  Batch batch;
  ASSERT_TRUE(dataset->Read(FirstExamples(20'000), batch).ok());
  // Reliability: in each tenth of the probabilities, as many clicks as they promise.
  std::vector<double> promised(10);
  std::vector<double> variance(10);
  std::vector<double> clicks(10);
  for (int64_t i = 0; i < batch.examples; ++i) {
    const double p = dataset->TrueProbability(i);
    ASSERT_GT(p, 0);
    ASSERT_LT(p, 1);
    const int bin = static_cast<int>(p * 10);
    promised[bin] += p;
    variance[bin] += p * (1 - p);
    clicks[bin] += batch.labels[i];
  }
  for (int bin = 0; bin < 10; ++bin) {
    EXPECT_GT(promised[bin], 10) << bin;
    EXPECT_NEAR(clicks[bin], promised[bin], 5 * std::sqrt(variance[bin])) << bin;
  }
}

TEST(SyntheticClicksTest, WorksWithFieldsOrNumbersAlone) {
  Batch batch;
  SyntheticClicksOptions options = kClicksOptions;
  options.numeric = 0;
  ASSERT_TRUE(SyntheticClicks::Create(options).value()->Read({0, 1}, batch).ok());
  EXPECT_THAT(batch.dense, SizeIs(0));
  EXPECT_THAT(batch.keys, SizeIs(10));
  options = kClicksOptions;
  options.fields = 0;
  options.cardinality = 0;
  const auto numeric = SyntheticClicks::Create(options);
  ASSERT_TRUE(numeric.ok()) << numeric.status();
  EXPECT_FALSE((*numeric)->info().sparse);
  ASSERT_TRUE((*numeric)->Read({0, 1}, batch).ok());
  EXPECT_THAT(batch.dense, SizeIs(6));
  EXPECT_THAT(batch.offsets, ElementsAre(0));
}

TEST(SyntheticClicksTest, RefusesFieldsOutOfRangeByName) {
  const auto expect_error = [](const SyntheticClicksOptions& options, const std::string& text) {
    const auto dataset = SyntheticClicks::Create(options);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(dataset.status().message()), HasSubstr(text));
  };
  expect_error({.examples = 0, .numeric = 1}, "synthetic_clicks.examples is 0");
  expect_error({.examples = ~uint64_t{0}, .numeric = 1}, "synthetic_clicks.examples is 1844");
  expect_error({.examples = 1}, "synthetic_clicks.fields is 0 and .numeric 0");
  expect_error({.examples = 1, .fields = 4'000'000'000, .cardinality = 1}, "fields is 4000000000");
  expect_error({.examples = 1, .fields = 1}, "synthetic_clicks.cardinality is 0");
  expect_error({.examples = 1, .fields = 1, .cardinality = ~uint64_t{0}}, "cardinality is 1844");
}

}  // namespace
}  // namespace muster
