#include "worker/data/datasets/shuffled_dataset.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/sampling/one_class.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Example i has label i * classes / examples: sorted by label.
class SortedDataset final : public Dataset {
 public:
  SortedDataset(int64_t examples, int64_t classes) {
    info_.examples = examples;
    info_.classes = classes;
  }
  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return 17; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override {
    batch.labels.clear();
    for (const int64_t index : indices) {
      batch.labels.push_back(static_cast<int32_t>(index * info_.classes / info_.examples));
    }
    return absl::OkStatus();
  }

 private:
  DatasetInfo info_;
};

std::vector<int32_t> LabelsOf(const Dataset& data) {
  std::vector<int64_t> all(data.info().examples);
  std::iota(all.begin(), all.end(), 0);
  Batch batch;
  EXPECT_TRUE(data.Read(all, batch).ok());
  return {batch.labels.begin(), batch.labels.end()};
}

TEST(ShuffledDatasetTest, HasEachExampleOnceInAnOrderOfTheSeed) {
  // A class an example.
  const ShuffledDataset one(std::make_unique<SortedDataset>(100, 100), 1);
  const ShuffledDataset again(std::make_unique<SortedDataset>(100, 100), 1);
  const ShuffledDataset other(std::make_unique<SortedDataset>(100, 100), 2);
  std::vector<int32_t> labels = LabelsOf(one);
  EXPECT_EQ(labels, LabelsOf(again));
  EXPECT_NE(labels, LabelsOf(other));
  EXPECT_EQ(one.fingerprint(), again.fingerprint());
  EXPECT_NE(one.fingerprint(), other.fingerprint()) << "it holds out other examples";
  EXPECT_FALSE(std::is_sorted(labels.begin(), labels.end()));
  std::sort(labels.begin(), labels.end());
  for (int32_t i = 0; i < 100; ++i) EXPECT_EQ(labels[i], i);
}

TEST(OneClassTest, WarnsOfDataSortedByLabelAndNotOfShuffledOnes) {
  const Split split = {.training = 160, .held_out = 40};
  const SortedDataset sorted(200, 4);
  EXPECT_THAT(WarnOfOneClass(sorted, split).value(),
              HasSubstr("all held-out examples seem to be of class 3"));
  const SortedDataset two(200, 2);
  EXPECT_THAT(WarnOfOneClass(two, {.training = 100, .held_out = 100}).value(),
              HasSubstr("all training examples seem to be of class 0, the held-out ones are not"));
  EXPECT_THAT(WarnOfOneClass(two, {.training = 50, .held_out = 150}).value(),
              HasSubstr("all training examples seem to be of class 0"));
  const ShuffledDataset shuffled(std::make_unique<SortedDataset>(200, 4), 1);
  EXPECT_EQ(WarnOfOneClass(shuffled, split).value(), "");
  EXPECT_EQ(WarnOfOneClass(sorted, {.training = 197, .held_out = 3}).value(), "")
      << "three of one class may be chance";
}

}  // namespace
}  // namespace muster
