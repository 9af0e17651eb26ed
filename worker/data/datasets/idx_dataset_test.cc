#include "worker/data/datasets/idx_dataset.h"

#include <numeric>
#include <string>
#include <vector>

#include "common/compression/packed_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/data/parsing/temp_files_for_testing.h"
#include "worker/data/shared_data_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class IdxDatasetTest : public testing::Test {
 protected:
  const TempFolder folder_;
};

TEST_F(IdxDatasetTest, ExamplesAreScaledPixelsAndClasses) {
  const std::string images =
      folder_.Write("images", IdxFile({3, 1, 2}, std::string("\x00\xff\x33\x66\x99\xcc", 6)));
  const std::string labels = folder_.Write("labels", IdxFile({3}, std::string("\x04\x00\x01", 3)));
  const auto dataset = IdxDataset::Create(images, labels);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo& info = (*dataset)->info();
  EXPECT_EQ(info.examples, 3);
  EXPECT_EQ(info.dense_features, 2);
  EXPECT_EQ(info.classes, 5);
  EXPECT_FALSE(info.sparse);
  EXPECT_EQ(info.vocabulary, 0);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({2, 0, 2}, batch).ok());
  EXPECT_EQ(batch.examples, 3);
  EXPECT_THAT(batch.dense, ElementsAre(0.6f, 0.8f, 0.0f, 1.0f, 0.6f, 0.8f));
  EXPECT_THAT(batch.labels, ElementsAre(1, 4, 1));
}

TEST_F(IdxDatasetTest, ImagesAloneHaveTheLabelZero) {
  const std::string images = folder_.Write("images", Gzip(IdxFile({3, 1, 2}, "abcdef")));
  const auto dataset = IdxDataset::CreateUnlabelled(images);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().examples, 3);
  EXPECT_EQ((*dataset)->info().dense_features, 2);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({2, 1}, batch).ok());
  EXPECT_THAT(batch.dense, ElementsAre('e' / 255.0f, 'f' / 255.0f, 'c' / 255.0f, 'd' / 255.0f));
  EXPECT_THAT(batch.labels, ElementsAre(0, 0));
  const std::string labels = folder_.Write("labels", IdxFile({3}, "abc"));
  EXPECT_THAT(std::string(IdxDataset::CreateUnlabelled(labels).status().message()),
              HasSubstr("images have at least 2"));
}

TEST_F(IdxDatasetTest, FingerprintIsOfTheUnpackedContent) {
  const std::string bytes = IdxFile({2, 2}, "abcd");
  const std::string labels = folder_.Write("labels", IdxFile({2}, std::string("\x00\x01", 2)));
  const std::string plain = folder_.Write("plain", bytes);
  const std::string packed = folder_.Write("packed", Gzip(bytes));
  const std::string other = folder_.Write("other", IdxFile({2, 2}, "abce"));
  const uint64_t fingerprint = IdxDataset::Create(plain, labels).value()->fingerprint();
  EXPECT_EQ(IdxDataset::Create(packed, labels).value()->fingerprint(), fingerprint);
  EXPECT_NE(IdxDataset::Create(other, labels).value()->fingerprint(), fingerprint);
}

TEST_F(IdxDatasetTest, RefusesFilesThatDoNotBelongTogether) {
  const std::string images = folder_.Write("images", IdxFile({3, 1, 2}, "abcdef"));
  const std::string two = folder_.Write("two", IdxFile({2}, "ab"));
  const auto unequal = IdxDataset::Create(images, two);
  EXPECT_EQ(unequal.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unequal.status().message()),
              AllOf(HasSubstr(images + "' has 3 images"), HasSubstr(two + "' has 2 labels")));
  EXPECT_THAT(std::string(IdxDataset::Create(two, images).status().message()),
              HasSubstr("exchanged"));
  EXPECT_THAT(std::string(IdxDataset::Create(two, two).status().message()),
              HasSubstr("images have at least 2"));
}

TEST_F(IdxDatasetTest, AMissingFileIsNotFoundByName) {
  const std::string labels = folder_.Write("labels", IdxFile({1}, "a"));
  const std::string absent = folder_.path() + "/absent";
  const auto dataset = IdxDataset::Create(absent, labels);
  EXPECT_EQ(dataset.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(dataset.status().message()), HasSubstr(absent));
}

TEST_F(IdxDatasetTest, ReadsTheHandwrittenDigits) {
  const auto images = SharedDataFile("t10k-images-idx3-ubyte.gz");
  const auto labels = SharedDataFile("t10k-labels-idx1-ubyte.gz");
  if (!images.ok()) GTEST_SKIP() << images.status().message();
  if (!labels.ok()) GTEST_SKIP() << labels.status().message();
  const auto dataset = IdxDataset::Create(*images, *labels);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().examples, 10000);
  EXPECT_EQ((*dataset)->info().dense_features, 28 * 28);
  EXPECT_EQ((*dataset)->info().classes, 10);
  std::vector<int64_t> all(10000);
  std::iota(all.begin(), all.end(), 0);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read(all, batch).ok());
  std::vector<int> counts(10);
  for (const int32_t label : batch.labels) ++counts[label];
  // As MNIST's test digits are known to be distributed; the first of them is a 7.
  EXPECT_THAT(counts, ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
  EXPECT_EQ(batch.labels[0], 7);
  const double mean = std::accumulate(batch.dense.begin(), batch.dense.end(), 0.0) /
                      static_cast<double>(batch.dense.size());
  EXPECT_NEAR(mean, 0.1325, 1e-3);
}

}  // namespace
}  // namespace muster
