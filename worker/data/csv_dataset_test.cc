#include "worker/data/csv_dataset.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/data/shared_data_for_testing.h"
#include "worker/data/temp_files_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CsvDatasetTest : public testing::Test {
 protected:
  // That a file of this text is refused, these texts in the message.
  void ExpectError(const std::string& text, const CsvColumns& columns, const std::string& a,
                   const std::string& b = "") {
    const auto dataset = CsvDataset::Create(folder_.Write("bad.csv", text), columns);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(dataset.status().message()), AllOf(HasSubstr(a), HasSubstr(b)));
  }

  const TempFolder folder_;
  const CsvColumns columns_ = {.label = "y", .numeric = {"n"}, .categorical = {"c"}};
};

TEST_F(CsvDatasetTest, NumericColumnsHaveMeanZeroAndVarianceOneInTheOrderAskedFor) {
  const std::string path = folder_.Write("a.csv", "b,y,a\n5,0,1\n5,1, 2 \n5,1,3\n5,0,4\n");
  const auto dataset = CsvDataset::Create(path, {.label = "y", .numeric = {"a", "b"}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo& info = (*dataset)->info();
  EXPECT_EQ(info.examples, 4);
  EXPECT_EQ(info.dense_features, 2);
  EXPECT_FALSE(info.sparse);
  EXPECT_EQ(info.fields, 0);
  EXPECT_EQ(info.classes, 2);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({3, 0, 1, 2}, batch).ok());
  const float unit = 1 / std::sqrt(1.25f);
  EXPECT_THAT(batch.dense, ElementsAre(FloatEq(1.5f * unit), 0, FloatEq(-1.5f * unit), 0,
                                       FloatEq(-0.5f * unit), 0, FloatEq(0.5f * unit), 0));
  EXPECT_THAT(batch.labels, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(batch.keys, IsEmpty());
  EXPECT_THAT(batch.offsets, ElementsAre(0));
}

TEST_F(CsvDatasetTest, AMissingNumberBecomesTheMeanOfThosePresent) {
  const std::string path = folder_.Write("a.csv", "y,n,m\n0,10,\n1,,\n0,\"\",\n1,30,\n");
  const auto dataset = CsvDataset::Create(path, {.label = "y", .numeric = {"n", "m"}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({0, 1, 2, 3}, batch).ok());
  EXPECT_THAT(batch.dense, ElementsAre(-1, 0, 0, 0, 0, 0, 1, 0));
}

TEST_F(CsvDatasetTest, LargeNumbersKeepTheirDifferences) {
  const std::string path = folder_.Write("a.csv", "y,n\n0,1600000001\n1,1600000003\n");
  const auto dataset = CsvDataset::Create(path, {.label = "y", .numeric = {"n"}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({0, 1}, batch).ok());
  EXPECT_THAT(batch.dense, ElementsAre(FloatEq(-1), FloatEq(1)));
}

TEST_F(CsvDatasetTest, CategoriesAreKeysOfTheirFieldAndAMissingOneIsACategory) {
  const std::string path =
      folder_.Write("a.csv", "y,c,d\n0,red,red\n1,blue,\n2,\"red\", red\n2,,blue\n1,,\n");
  const auto dataset = CsvDataset::Create(path, {.label = "y", .categorical = {"c", "d"}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().fields, 2);
  EXPECT_TRUE((*dataset)->info().sparse);
  EXPECT_EQ((*dataset)->info().dense_features, 0);
  EXPECT_EQ((*dataset)->info().classes, 3);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({0, 1, 2, 3, 4}, batch).ok());
  EXPECT_THAT(batch.offsets, ElementsAre(0, 2, 4, 6, 8, 10));
  ASSERT_EQ(batch.keys.size(), 10);
  EXPECT_THAT(batch.values, AllOf(testing::SizeIs(10), Each(1.0f)));
  const auto key = [&](int example, int field) { return batch.keys[example * 2 + field]; };
  EXPECT_EQ(key(0, 0), key(2, 0));
  EXPECT_EQ(key(0, 1), key(2, 1));
  EXPECT_NE(key(0, 0), key(0, 1));
  EXPECT_NE(key(0, 0), key(1, 0));
  EXPECT_EQ(key(3, 0), key(4, 0));
  EXPECT_NE(key(3, 0), key(0, 0));
  EXPECT_NE(key(3, 0), key(1, 0));
  EXPECT_EQ(key(1, 1), key(4, 1));
  EXPECT_NE(key(4, 0), key(4, 1));
}

TEST_F(CsvDatasetTest, KeysDoNotDependOnOtherRowsOrOnColumnsNotUsed) {
  const std::string one = folder_.Write("one.csv", "y,c\n0,red\n");
  const std::string two = folder_.Write("two.csv", "x,c,y\n7,blue,1\n8,red,1\n");
  const CsvColumns columns = {.label = "y", .categorical = {"c"}};
  Batch batch;
  ASSERT_TRUE(CsvDataset::Create(one, columns).value()->Read({0}, batch).ok());
  const uint64_t red = batch.keys.at(0);
  ASSERT_TRUE(CsvDataset::Create(two, columns).value()->Read({1}, batch).ok());
  EXPECT_EQ(batch.keys.at(0), red);
}

TEST_F(CsvDatasetTest, FingerprintIsOfContentAndColumns) {
  const std::string one = folder_.Write("one.csv", "y,n,c\n0,1,a\n1,2,b\n");
  const std::string same = folder_.Write("same.csv", "y,n,c\n0,1,a\n1,2,b\n");
  const std::string other = folder_.Write("other.csv", "y,n,c\n0,1,a\n1,3,b\n");
  const uint64_t fingerprint = CsvDataset::Create(one, columns_).value()->fingerprint();
  EXPECT_EQ(CsvDataset::Create(same, columns_).value()->fingerprint(), fingerprint);
  EXPECT_NE(CsvDataset::Create(other, columns_).value()->fingerprint(), fingerprint);
  const CsvColumns fewer = {.label = "y", .numeric = {"n"}};
  const CsvColumns moved = {.label = "y", .categorical = {"n", "c"}};
  EXPECT_NE(CsvDataset::Create(one, fewer).value()->fingerprint(), fingerprint);
  EXPECT_NE(CsvDataset::Create(one, moved).value()->fingerprint(), fingerprint);
}

TEST_F(CsvDatasetTest, ARaggedLineIsNamedWithBothCounts) {
  ExpectError("y,n,c\n0,1,a\n1,2\n", columns_, "bad.csv:3: has 2 fields, the header has 3");
  ExpectError("y,n,c\n0,1,a,b\n", columns_, "bad.csv:2: has 4 fields, the header has 3");
  ExpectError("y,n,c\n0,1,\"a\nb\"\n1\n", columns_, "bad.csv:4: has 1 field, the header has 3");
}

TEST_F(CsvDatasetTest, ABadNumberIsNamedWithLineAndColumn) {
  ExpectError("y,n,c\n0,1,a\n1,NaN,b\n", columns_, "bad.csv:3: value 'NaN' in numeric column 'n'",
              "leave a missing value empty");
  ExpectError("y,n,c\n0,inf,a\n", columns_, "bad.csv:2: value 'inf' in numeric column 'n'");
  ExpectError("y,n,c\n0,red,a\n", columns_, "bad.csv:2: value 'red' in numeric column 'n'");
}

TEST_F(CsvDatasetTest, ABadLabelIsNamedWithItsLine) {
  ExpectError("y,n,c\n0,1,a\nyes,1,a\n", columns_, "bad.csv:3: label 'yes'");
  ExpectError("y,n,c\n,1,a\n", columns_, "bad.csv:2: the label is missing");
  ExpectError("y,n,c\n0.5,1,a\n", columns_, "bad.csv:2: label '0.5'");
}

TEST_F(CsvDatasetTest, AnUnknownColumnIsAnsweredWithTheHeader) {
  ExpectError("y,n,c\n0,1,a\n", {.label = "click", .numeric = {"n"}}, "no column 'click'",
              "header is: 'y', 'n', 'c'");
  ExpectError("y,n,c\n0,1,a\n", {.label = "y", .numeric = {"m"}}, "no column 'm'");
  ExpectError("y,n,c\n0,1,a\n", {.label = "y", .categorical = {"C"}}, "no column 'C'");
  ExpectError("y,n,n\n0,1,a\n", {.label = "y", .numeric = {"n"}}, "'n' more than once", "rename");
}

TEST_F(CsvDatasetTest, RefusesColumnsThatMakeNoSense) {
  ExpectError("y,n\n0,1\n", {.label = "", .numeric = {"n"}}, "data.csv.label is empty");
  ExpectError("y,n\n0,1\n", {.label = "y"}, "both empty");
  ExpectError("y,n\n0,1\n", {.label = "y", .numeric = {"y"}}, "column 'y' more than once");
  ExpectError("y,n\n0,1\n", {.label = "y", .numeric = {"n"}, .categorical = {"n"}},
              "column 'n' more than once");
}

TEST_F(CsvDatasetTest, RefusesFilesWithoutExamplesAndMissingOnes) {
  ExpectError("", columns_, "bad.csv' is empty");
  ExpectError("\n\n", columns_, "bad.csv' holds blank lines only");
  ExpectError("y,n,c\n", columns_, "bad.csv' has a header and no line after it");
  const std::string absent = folder_.path() + "/absent";
  const auto missing = CsvDataset::Create(absent, columns_);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(absent));
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
