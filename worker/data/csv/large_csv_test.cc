// Tables that are read from the disk, and a real one.

#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "common/compression/packed_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/data/csv/csv_dataset_for_testing.h"
#include "worker/data/shared_data_for_testing.h"

namespace muster {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;

// Large files are not kept in memory.
TEST_F(CsvDatasetTest, LargeFilesAreReadFromTheDiskToTheSameBits) {
  std::string text = "y,n,m,c\n";
  for (int i = 0; i < 200; ++i) {
    text += std::to_string(i % 3) + "," + std::to_string(i * i) + ".5,";
    if (i % 5 > 0) text += std::to_string(-i);
    text += i % 7 == 0 ? ",\"a\n\"\"b,\"\r\n\n" : "," + std::to_string(i % 11) + "\n";
  }
  folder_.Write("part-1.csv", "\xef\xbb\xbf" + text);
  folder_.Write("part-2.csv", Gzip(text));
  folder_.Write("part-3.csv", text);
  const CsvColumns columns = {.label = "y", .numeric = {"n", "m"}, .categorical = {"c"}};
  const std::string pattern = folder_.path() + "/part-*.csv";
  const auto kept = CsvDataset::Create(pattern, columns, {.holdout = 0.3});
  const auto placed = CsvDataset::Create(pattern, columns, {.holdout = 0.3, .keep_below_bytes = 1});
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ((*placed)->info().examples, 600);
  EXPECT_EQ((*placed)->fingerprint(), (*kept)->fingerprint());
  EXPECT_EQ((*placed)->info().preparation, (*kept)->info().preparation);
  const Batch of_kept = ReadAll(**kept);
  const Batch of_placed = ReadAll(**placed);
  EXPECT_EQ(of_placed.dense, of_kept.dense);
  EXPECT_EQ(of_placed.keys, of_kept.keys);
  EXPECT_EQ(of_placed.offsets, of_kept.offsets);
  EXPECT_EQ(of_placed.labels, of_kept.labels);
}

TEST_F(CsvDatasetTest, AChangeOfALargeFileIsSeen) {
  const std::string path = folder_.Write("a.csv", "y,n,c\n0,1,a\n1,2,b\n");
  const auto dataset = CsvDataset::Create(path, columns_, {.keep_below_bytes = 1});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::fstream(path, std::ios::in | std::ios::out).seekp(14) << "x";
  Batch batch;
  EXPECT_TRUE((*dataset)->Read({0}, batch).ok());
  const absl::Status changed = (*dataset)->Read({1}, batch);
  EXPECT_EQ(changed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(changed.message()), HasSubstr("example 1, at byte 12"));
}

TEST_F(CsvDatasetTest, ReadsTheAdvertisingSampleWithItsGaps) {
  const auto path = SharedDataFile("criteo_sample.csv");
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  CsvColumns columns = {.label = "label"};
  for (int i = 1; i <= 13; ++i) columns.numeric.push_back("I" + std::to_string(i));
  for (int i = 1; i <= 26; ++i) columns.categorical.push_back("C" + std::to_string(i));
  const auto dataset = CsvDataset::Create(*path, columns);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo& info = (*dataset)->info();
  ASSERT_EQ(info.examples, 200);
  EXPECT_EQ(info.dense_features, 13);
  EXPECT_EQ(info.fields, 26);
  EXPECT_EQ(info.classes, 2);
  std::vector<int64_t> all(200);
  std::iota(all.begin(), all.end(), 0);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read(all, batch).ok());
  EXPECT_EQ(batch.keys.size(), 200 * 26);
  for (int column = 0; column < 13; ++column) {
    double sum = 0;
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(std::isfinite(batch.dense[i * 13 + column]));
      sum += batch.dense[i * 13 + column];
    }
    EXPECT_THAT(static_cast<float>(sum), FloatNear(0, 1e-3f)) << "column " << column;
  }
  const int clicks = std::accumulate(batch.labels.begin(), batch.labels.end(), 0);
  EXPECT_GT(clicks, 20);
  EXPECT_LT(clicks, 100);
}

}  // namespace
}  // namespace muster
