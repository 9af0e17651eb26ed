#include "worker/data/csv/csv_dataset.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/compression/packed_for_testing.h"
#include "common/files/bytes_of_file.h"
#include "common/parquet/parquet_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/batch.h"
#include "worker/data/parsing/temp_files_for_testing.h"
#include "worker/data/sampling/example_order.h"
#include "worker/data/shared_data_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Truly;

class CsvDatasetTest : public testing::Test {
 protected:
  // That a file of this text is refused, these texts in the message.
  void ExpectError(const std::string& text, const CsvColumns& columns, const std::string& a,
                   const std::string& b = "") {
    const auto dataset = CsvDataset::Create(folder_.Write("bad.csv", text), columns);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(dataset.status().message()), AllOf(HasSubstr(a), HasSubstr(b)));
  }

  static Batch ReadAll(const CsvDataset& dataset) {
    std::vector<int64_t> all(dataset.info().examples);
    std::iota(all.begin(), all.end(), 0);
    Batch batch;
    EXPECT_TRUE(dataset.Read(all, batch).ok());
    return batch;
  }

  static v1::CsvPreparation PreparationOf(const CsvDataset& dataset) {
    v1::DataPreparation preparation;
    EXPECT_TRUE(preparation.ParseFromString(dataset.info().preparation));
    return preparation.csv();
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

TEST_F(CsvDatasetTest, MissingValuesAreTheSameHoweverTheyAreWritten) {
  const std::string path =
      folder_.Write("a.csv", "y,n,c\n0,10,x\n1,NA,NA\n0,?,-\n1,30,\n0,null, NaN \n1,-,None\n");
  const auto dataset = CsvDataset::Create(path, columns_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch = ReadAll(**dataset);
  EXPECT_THAT(batch.dense, ElementsAre(-1, 0, 0, 1, 0, 0));
  ASSERT_EQ(batch.keys.size(), 6);
  EXPECT_NE(batch.keys[0], batch.keys[1]);
  EXPECT_EQ(std::count(batch.keys.begin(), batch.keys.end(), batch.keys[1]), 5);
  ExpectError("y,n,c\n0,1,a\nNA,1,a\n", columns_, "bad.csv:3: the label is missing");
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
  ExpectError("y,n,c\n0,1,a\n1,+NaN,b\n", columns_,
              "bad.csv:3: the value in numeric column 'n' (field 2) is not a number that training",
              "leave a missing value empty");
  ExpectError("y,n,c\n0,inf,a\n", columns_, "bad.csv:2: the value in numeric column 'n'");
  ExpectError("y,n,c\n0,red,a\n", columns_, "bad.csv:2: the value in numeric column 'n'");
}

TEST_F(CsvDatasetTest, ABadLabelIsNamedWithItsLine) {
  ExpectError("y,n,c\n0,1,a\nyes,1,a\n", columns_, "bad.csv:3: the label is a text");
  ExpectError("y,n,c\n,1,a\n", columns_, "bad.csv:2: the label is missing");
  ExpectError("y,n,c\n0.5,1,a\n", columns_, "bad.csv:2: the label is a number");
}

TEST_F(CsvDatasetTest, AnUnknownColumnIsAnsweredWithTheHeader) {
  ExpectError("y,n,c\n0,1,a\n", {.label = "click", .numeric = {"n"}}, "no column 'click'",
              "among the 3 of its header; correct the name, or set data.csv.no_header");
  // Names are shown as they are, with the nearest.
  ExpectError("y,größe,c\n0,1,a\n", {.label = "y", .numeric = {"grösse"}},
              "no column 'grösse' among the 3 of its header; did you mean \"größe\"?");
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

// Where the sums would overflow a float, and a deviation is far below one.
TEST_F(CsvDatasetTest, WhatIsFarFromAllTrainingValuesStaysFinite) {
  const std::string path = folder_.Write("a.csv", "y,n\n0,0\n1,1e-30\n0,3e38\n1,-3e38\n");
  const auto dataset = CsvDataset::Create(path, {.label = "y", .numeric = {"n"}}, {.holdout = 0.5});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(ReadAll(**dataset).dense, Each(Truly([](float x) { return std::isfinite(x); })));
}

TEST_F(CsvDatasetTest, LearnsFromTrainingExamplesAlone) {
  // Held-out rows differ in all that is learned.
  const std::string path =
      folder_.Write("a.csv", "y,n,m\n1,0,7\n2,2,7\n2,,7\n1,5,8\n1,,9\n2,-1,7\n");
  const auto dataset =
      CsvDataset::Create(path, {.label = "y", .numeric = {"n", "m"}}, {.holdout = 0.5});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  // Mean 1, deviation 1; of m nothing was learned.
  const Batch batch = ReadAll(**dataset);
  EXPECT_THAT(batch.dense, ElementsAre(-1, 0, 1, 0, 0, 0, 4, 0, 0, 0, -2, 0));
  EXPECT_THAT(batch.labels, ElementsAre(0, 1, 1, 0, 0, 1));
  const v1::CsvPreparation learned = PreparationOf(**dataset);
  ASSERT_EQ(learned.numeric_size(), 2);
  EXPECT_EQ(learned.numeric(0).name(), "n");
  EXPECT_EQ(learned.numeric(0).mean(), 1);
  EXPECT_EQ(learned.numeric(0).deviation(), 1);
  EXPECT_EQ(learned.numeric(1).mean(), 7);
  EXPECT_EQ(learned.numeric(1).deviation(), 0);
  EXPECT_THAT(learned.classes(), ElementsAre("1", "2"));
}

TEST_F(CsvDatasetTest, LearnsFromARandomShareWhereTheEndOfAnOrderIsHeldOut) {
  std::string text = "y,n\n";
  for (int i = 0; i < 10; ++i) absl::StrAppend(&text, i % 2, ",", i, "\n");
  const std::string path = folder_.Write("a.csv", text);
  const ExampleOrder order(/*seed=*/7, /*examples=*/10);
  double sum = 0;
  for (int position = 0; position < 5; ++position) sum += static_cast<double>(order(position));
  for (const uint64_t keep_below : {uint64_t{1}, uint64_t{1} << 20}) {
    const auto dataset =
        CsvDataset::Create(path, {.label = "y", .numeric = {"n"}},
                           {.holdout = 0.5, .shuffle_seed = 7, .keep_below_bytes = keep_below});
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_DOUBLE_EQ(PreparationOf(**dataset).numeric(0).mean(), sum / 5);
  }
  EXPECT_NE(sum, 0 + 1 + 2 + 3 + 4) << "this seed draws the data's own order; take another";
}

TEST_F(CsvDatasetTest, WhereAllIsHeldOutAllIsLearnedFrom) {
  const std::string path = folder_.Write("a.csv", "y,n\n0,1\n1,3\n");
  const auto dataset = CsvDataset::Create(path, {.label = "y", .numeric = {"n"}}, {.holdout = 1});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(ReadAll(**dataset).dense, ElementsAre(-1, 1));
}

// The fault that this is for: evaluating some of the training file's rows gave other numbers.
TEST_F(CsvDatasetTest, RowsMeanTheSameByThePreparationOfTheWeights) {
  const CsvColumns columns = {.label = "y", .numeric = {"n", "m"}};
  const std::string whole =
      folder_.Write("whole.csv", "y,n,m\nno,10,1\nyes,20,\nyes,,4\nno,30,2\nmaybe,1,1\n");
  const auto trained = CsvDataset::Create(whole, columns);
  ASSERT_TRUE(trained.ok()) << trained.status();
  const v1::CsvPreparation kept = PreparationOf(**trained);
  const Batch of_whole = ReadAll(**trained);
  const std::string some = folder_.Write("some.csv", "m,y,n\n,yes,20\n4,yes,\n");
  const auto later = CsvDataset::Create(some, columns, {.preparation = &kept});
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ((*later)->info().classes, 3);
  EXPECT_EQ((*later)->info().preparation, (*trained)->info().preparation);
  const Batch of_some = ReadAll(**later);
  EXPECT_THAT(of_some.labels, ElementsAre(2, 2));
  EXPECT_THAT(of_some.dense,
              ElementsAreArray(of_whole.dense.begin() + 2, of_whole.dense.begin() + 6));
}

TEST_F(CsvDatasetTest, RefusesThePreparationOfOtherColumns) {
  const std::string path = folder_.Write("a.csv", "y,n,m\n0,1,2\n1,2,3\n");
  const auto error = [&](const CsvColumns& columns, const v1::CsvPreparation& preparation) {
    const absl::Status status =
        CsvDataset::Create(path, columns, {.preparation = &preparation}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  v1::CsvPreparation kept =
      PreparationOf(**CsvDataset::Create(path, {.label = "y", .numeric = {"n", "m"}}));
  EXPECT_THAT(error({.label = "y", .numeric = {"m", "n"}}, kept),
              HasSubstr("number 1 of the numeric columns that the weights were trained on is 'n'"));
  EXPECT_THAT(error({.label = "y", .numeric = {"n"}}, kept), HasSubstr("2 numeric columns"));
  kept.mutable_numeric(1)->set_deviation(-1);
  EXPECT_THAT(error({.label = "y", .numeric = {"n", "m"}}, kept), HasSubstr("the deviation -1"));
}

TEST_F(CsvDatasetTest, WithoutAHeaderColumnsGoByTheirNumbers) {
  const std::string path = folder_.Write("a.csv",
                                         "\xef\xbb\xbf"
                                         "5,a,0\n7,b,1\n");
  CsvColumns columns = {.label = "3", .numeric = {"1"}, .categorical = {"2"}};
  columns.header = CsvColumns::Header::kNone;
  const auto dataset = CsvDataset::Create(path, columns);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const Batch batch = ReadAll(**dataset);
  EXPECT_THAT(batch.dense, ElementsAre(-1, 1));
  EXPECT_THAT(batch.labels, ElementsAre(0, 1));
  columns.numeric = {"4"};
  ExpectError("5,a,0\n", columns, "no column '4'", "columns go by number, 1 to 3");
  columns.numeric = {"age"};
  ExpectError("5,a,0\n", columns, "no column 'age'", "leave no_header out");
}

TEST_F(CsvDatasetTest, ReadsOtherSeparatorsQuotesAndAByteOrderMark) {
  for (const char separator : {';', '\t', '|'}) {
    std::string text = "\xef\xbb\xbfy;n;c\n0;1,5;\"a;\"\"b\"\"\n\"\n1;3,5;x\n";
    // A decimal comma is no number.
    std::replace(text.begin(), text.end(), ',', '.');
    std::replace(text.begin(), text.end(), ';', separator);
    CsvColumns columns = columns_;
    columns.separator = separator;
    const auto dataset = CsvDataset::Create(folder_.Write("a.csv", text), columns);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_THAT(ReadAll(**dataset).dense, ElementsAre(-1, 1));
  }
}

TEST_F(CsvDatasetTest, AWrongSeparatorIsNamed) {
  ExpectError("y;n;c\n0;1;a\n", columns_, "no column 'y'",
              "its separator looks like ';', not ',': set data.csv.separator to \";\"");
  ExpectError("y\tn\tc\n0\t1\ta\n", columns_, "looks like '\\t'", "to \"\\t\"");
  // The name is wrong, too.
  ExpectError("Y|n|c\n0|1|a\n", columns_, "looks like '|'");
  ExpectError("y,n,c\n0;1;a\n", columns_, "bad.csv:2: has 1 field", "looks like ';'");
  CsvColumns columns = {.label = "3", .numeric = {"1"}, .separator = ';'};
  columns.header = CsvColumns::Header::kNone;
  ExpectError("1,2,0\n", columns, "no column '3'", "looks like ',', not ';'");
  columns.separator = '1';
  ExpectError("1,2,0\n", columns, "data.csv.separator is '1'");
}

TEST_F(CsvDatasetTest, ReadsFilesThatFitAPatternAsOne) {
  folder_.Write("part-2.csv", "y,n,c\n1,4,b\n");
  folder_.Write("part-1.csv", "y,n,c\n0,1,a\n0,1,a");
  folder_.Write("part-3.csv", "\xef\xbb\xbf y , n,c\n");
  folder_.Write("part-4.csv.gz", Gzip("y,n,c\r\n1,1,d\r\n"));
  const auto dataset = CsvDataset::Create(folder_.path() + "/part-*", columns_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().examples, 4);
  EXPECT_THAT(ReadAll(**dataset).labels, ElementsAre(0, 0, 1, 1));
  folder_.Write("one.csv", "y,n,c\n0,1,a\n0,1,a\n1,4,b\n1,1,d\n");
  const auto one = CsvDataset::Create(folder_.path() + "/one.csv", columns_);
  EXPECT_EQ(ReadAll(**one).keys, ReadAll(**dataset).keys);
  EXPECT_EQ(ReadAll(**one).dense, ReadAll(**dataset).dense);
  EXPECT_NE((*one)->fingerprint(), (*dataset)->fingerprint());
}

TEST_F(CsvDatasetTest, APackedFileIsTheDataThatItUnpacksTo) {
  const std::string text = "y,n,c\n0,1,a\n1,2,b\n";
  const auto plain = CsvDataset::Create(folder_.Write("a.csv", text), columns_);
  const auto packed = CsvDataset::Create(folder_.Write("a.csv.gz", Gzip(text)), columns_);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ((*packed)->fingerprint(), (*plain)->fingerprint());
  ExpectError(Gzip(text).substr(0, 20), columns_, "bad.csv': the gzip stream ends early");
}

// The first examples are made up; where fields are empty is as in the real file.
TEST_F(CsvDatasetTest, CriteosFileIsReadAsPublished) {
  CsvColumns columns = {.label = "1", .separator = '\t', .header = CsvColumns::Header::kNone};
  for (int i = 2; i <= 14; ++i) columns.numeric.push_back(absl::StrCat(i));
  for (int i = 15; i <= 40; ++i) columns.categorical.push_back(absl::StrCat(i));
  const auto hashed = [](int from) {
    std::string fields;
    for (int i = from; i < 26; ++i)
      absl::StrAppend(&fields, "\t", absl::Hex(i * 7919, absl::kZeroPad8));
    return fields;
  };
  const std::string path = folder_.Write(
      "train.txt", absl::StrCat("0\t1\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2", hashed(0), "\n",
                                // Numbers below 0, and an example that ends with empty fields.
                                "1\t\t-1\t\t\t102\t8\t2\t2\t4\t\t1\t\t4", hashed(3), "\t\t\t\n",
                                "0", std::string(39, '\t'), "\n"));
  for (const uint64_t keep_below : {uint64_t{0}, kCsvKeptBelowBytes}) {
    const auto dataset = CsvDataset::Create(path, columns, {.keep_below_bytes = keep_below});
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->info().examples, 3);
    EXPECT_EQ((*dataset)->info().dense_features, 13);
    EXPECT_EQ((*dataset)->info().fields, 26);
    EXPECT_EQ((*dataset)->info().classes, 2);
    const Batch batch = ReadAll(**dataset);
    EXPECT_THAT(batch.labels, ElementsAre(0, 1, 0));
    // -1 and 1 in the second column; a missing number is the mean.
    EXPECT_THAT(batch.dense[1], FloatEq(1));
    EXPECT_THAT(batch.dense[13 + 1], FloatEq(-1));
    EXPECT_EQ(batch.dense[26 + 1], 0);
    EXPECT_EQ(batch.keys.size(), 3 * 26u);
    // What is missing is the same category in both.
    EXPECT_EQ(batch.keys[26 + 25], batch.keys[52 + 25]);
    EXPECT_NE(batch.keys[25], batch.keys[52 + 25]);
  }
}

TEST_F(CsvDatasetTest, AvazusFileIsReadAsPublished) {
  const std::string path = folder_.Write(
      "train.csv",
      "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_"
      "category,"
      "device_id,device_ip,device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,"
      "C21\n"
      "1000009418151094273,0,14102100,1005,0,1fbe01fe,f3845767,28905ebd,ecad2386,7801e8d9,07d7df22,"
      "a99f214a,ddd2926e,44956a24,1,2,15706,320,50,1722,0,35,-1,79\n"
      "10000169349117863715,1,14102101,1005,1,1fbe01fe,f3845767,28905ebd,ecad2386,7801e8d9,"
      "07d7df22,"
      "a99f214a,96809ac8,711ee120,1,0,15704,320,50,1722,0,35,100084,79\n");
  const CsvColumns columns = {.label = "click",
                              .numeric = {"hour"},
                              .categorical = {"C1", "banner_pos", "site_id", "device_ip", "C20"}};
  const auto dataset = CsvDataset::Create(path, columns);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const Batch batch = ReadAll(**dataset);
  EXPECT_THAT(batch.labels, ElementsAre(0, 1));
  EXPECT_THAT(batch.dense, ElementsAre(-1, 1));
  EXPECT_EQ(batch.keys[0], batch.keys[5]);
  EXPECT_EQ(batch.keys[2], batch.keys[7]);
  EXPECT_NE(batch.keys[1], batch.keys[6]);
  EXPECT_NE(batch.keys[4], batch.keys[9]);
}

// Returns a file of the columns y, n and c.
std::string TableInParquet(const std::vector<std::optional<std::string>>& y,
                           const std::vector<std::optional<std::string>>& n,
                           const std::vector<std::optional<std::string>>& c) {
  return ParquetOfTexts({{"y", y}, {"n", n}, {"c", c}});
}

TEST_F(CsvDatasetTest, ParquetIsTheTableThatTheSameCsvIs) {
  folder_.Write("a.csv", "y,n,c\nno,1,a\nyes,,\"b, c\"\nyes,2.5,\n");
  folder_.Write("p-1.parquet", TableInParquet({"no", "yes"}, {"1", std::nullopt}, {"a", "b, c"}));
  folder_.Write("p-2.parquet", TableInParquet({"yes"}, {"2.5"}, {std::nullopt}));
  const auto csv = CsvDataset::Create(folder_.path() + "/a.csv", columns_);
  ASSERT_TRUE(csv.ok()) << csv.status();
  // Parquet is kept as numbers even if it is large.
  for (const uint64_t keep_below : {uint64_t{0}, kCsvKeptBelowBytes}) {
    const auto parquet =
        CsvDataset::Create(folder_.path() + "/p-*", columns_, {.keep_below_bytes = keep_below});
    ASSERT_TRUE(parquet.ok()) << parquet.status();
    EXPECT_EQ((*parquet)->info().examples, 3);
    EXPECT_EQ((*parquet)->info().preparation, (*csv)->info().preparation);
    const Batch batch = ReadAll(**parquet);
    EXPECT_EQ(batch.dense, ReadAll(**csv).dense);
    EXPECT_EQ(batch.keys, ReadAll(**csv).keys);
    EXPECT_EQ(batch.labels, ReadAll(**csv).labels);
    EXPECT_NE((*parquet)->fingerprint(), 0u);
  }
  const auto with = [this](const std::string& bytes) {
    return (*CsvDataset::Create(folder_.Write("q.parquet", bytes), columns_))->fingerprint();
  };
  EXPECT_EQ(with(TableInParquet({"0", "1"}, {"1", "2"}, {"a", "b"})),
            with(TableInParquet({"0", "1"}, {"1", "2"}, {"a", "b"})));
  EXPECT_NE(with(TableInParquet({"0", "1"}, {"1", "2"}, {"a", "b"})),
            with(TableInParquet({"0", "1"}, {"1", "2"}, {"a", "c"})));
}

TEST_F(CsvDatasetTest, NumbersAndBooleansOfParquetAreRead) {
  // The rows of other writers: numbers of all types, of which some are null.
  const std::string lines = BytesOfFile("common/parquet/testdata/rows.jsonl");
  std::string csv = "id,small,half,third,sure,color\n";
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const auto row = nlohmann::json::parse(line);
    for (const char* name : {"id", "small", "half", "third"}) {
      absl::StrAppend(&csv, row[name].is_null() ? "" : row[name].dump(), ",");
    }
    absl::StrAppend(&csv,
                    row["sure"].is_null()     ? ""
                    : row["sure"].get<bool>() ? "1"
                                              : "0",
                    ",", row["color"].is_null() ? "" : row["color"].get<std::string>(), "\n");
  }
  const CsvColumns columns = {.label = "small",
                              .numeric = {"third", "id", "half", "sure"},
                              .categorical = {"color"},
                              .label_kind = LabelKind::kNumber};
  const auto expected = CsvDataset::Create(folder_.Write("rows.csv", csv), columns);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* name : {"duckdb_v1_snappy", "arrow_v2_zstd", "hyparquet_flat"}) {
    const auto dataset = CsvDataset::Create(
        absl::StrCat("common/parquet/parquet_rows_corpus/", name, ".parquet"), columns);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->info().preparation, (*expected)->info().preparation) << name;
    EXPECT_EQ(ReadAll(**dataset).dense, ReadAll(**expected).dense) << name;
    EXPECT_EQ(ReadAll(**dataset).keys, ReadAll(**expected).keys) << name;
    EXPECT_EQ(ReadAll(**dataset).targets, ReadAll(**expected).targets) << name;
  }
  // As a label they are texts.
  const auto sure =
      CsvDataset::Create("common/parquet/parquet_rows_corpus/hyparquet_flat.parquet",
                         {.label = "color", .numeric = {"id"}, .categorical = {"sure"}});
  EXPECT_THAT(std::string(sure.status().message()),
              HasSubstr("hyparquet_flat.parquet:3: the label is missing"));
}

TEST_F(CsvDatasetTest, WhatIsWrongWithATableInParquetIsNamed) {
  const auto error = [&](const std::string& bytes, const CsvColumns& columns) {
    const auto dataset = CsvDataset::Create(folder_.Write("bad.parquet", bytes), columns);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(dataset.status().message());
  };
  const std::string sound = TableInParquet({"0"}, {"1"}, {"a"});
  EXPECT_THAT(error(ParquetOfTexts({{"y", {"0"}}, {"number", {"1"}}}),
                    {.label = "y", .numeric = {"numbr"}}),
              AllOf(HasSubstr("bad.parquet' has no column 'numbr' among its 2"),
                    HasSubstr("did you mean \"number\"?")));
  CsvColumns by_number = columns_;
  by_number.header = CsvColumns::Header::kNone;
  EXPECT_THAT(error(sound, by_number), HasSubstr("leave no_header out"));
  EXPECT_THAT(error(TableInParquet({"0", "1"}, {"1", "x"}, {"a", "b"}), columns_),
              HasSubstr("bad.parquet:2: the value in numeric column 'n' (field 2) "));
  EXPECT_THAT(error(TableInParquet({}, {}, {}), columns_),
              HasSubstr("bad.parquet' has no rows; training needs examples"));
  EXPECT_THAT(
      error(ParquetOfTexts({{"y", {"0"}}, {"n", {"1"}}, {"n", {"1"}}, {"c", {"1"}}}), columns_),
      HasSubstr("has column 'n' more than once"));
  EXPECT_THAT(error(sound.substr(0, sound.size() - 1), columns_), HasSubstr("it was cut off"));
  folder_.Write("mixed-1.csv", "y,n,c\n0,1,a\n");
  folder_.Write("mixed-2.parquet", sound);
  EXPECT_THAT(
      std::string(CsvDataset::Create(folder_.path() + "/mixed-*", columns_).status().message()),
      AllOf(HasSubstr("1.csv' is text"), HasSubstr("2.parquet' a Parquet file")));
  folder_.Write("other-1.parquet", sound);
  folder_.Write("other-2.parquet", ParquetOfTexts({{"y", {"0"}}, {"c", {"1"}}, {"n", {"1"}}}));
  EXPECT_THAT(
      std::string(CsvDataset::Create(folder_.path() + "/other-*", columns_).status().message()),
      HasSubstr("2.parquet:1: column 2 of the header has another name than in the first"));
  const auto lists = CsvDataset::Create("common/parquet/parquet_rows_corpus/arrow_delta.parquet",
                                        {.label = "id", .categorical = {"tags"}});
  EXPECT_THAT(std::string(lists.status().message()),
              HasSubstr("column 'tags' has lists or structs, which Muster does not read; a table"));
}

TEST_F(CsvDatasetTest, FilesOfAPatternHaveOneHeader) {
  folder_.Write("part-1.csv", "y,n,c\n0,1,a\n");
  const std::string second = folder_.path() + "/part-2.csv";
  const auto error = [&](const std::string& text) {
    folder_.Write("part-2.csv", text);
    return std::string(
        CsvDataset::Create(folder_.path() + "/part-?.csv", columns_).status().message());
  };
  EXPECT_THAT(error("y,c,n\n1,a,1\n"), HasSubstr(second + ":1: column 2 of the header"));
  EXPECT_THAT(error("y,n\n1,1\n"), HasSubstr(second + ":1: the header has 2 columns"));
  EXPECT_THAT(error("\n\n"), HasSubstr("part-2.csv' holds blank lines only; its header"));
  EXPECT_THAT(error(""), HasSubstr("part-2.csv' is empty"));
  EXPECT_THAT(error("y,n,c\n1,x,a\n"), HasSubstr(second + ":2: the value in numeric column"));
}

TEST_F(CsvDatasetTest, RefusesFoldersAndUtf16ByName) {
  const auto folder = CsvDataset::Create(folder_.path(), columns_);
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("/*.csv'"));
  ExpectError(std::string("\xff\xfey\0,\0", 6), columns_, "is text in UTF-16");
  ExpectError("Gr\xf6\xdf\x65,y\n1,0\n", columns_, "is not UTF-8");
}

// Values are 1, 2, 3 and 6 of n with the numbers to predict 30, 10, 20 and 100, of which the last
// is held out: mean 20, variance 200 / 3.
class CsvTargetTest : public CsvDatasetTest {
 protected:
  CsvTargetTest() { columns_.label_kind = LabelKind::kNumber; }

  const std::string path_ = folder_.Write("a.csv", "n,price,c\n1,30,a\n2,10,b\n3,20,a\n6,100,b\n");
  CsvColumns columns_ = {.label = "price", .numeric = {"n"}, .categorical = {"c"}};
};

TEST_F(CsvTargetTest, ANumberToPredictIsNormalisedOverTrainingExamples) {
  for (const uint64_t keep_below : {uint64_t{1}, uint64_t{1} << 20}) {
    const auto dataset =
        CsvDataset::Create(path_, columns_, {.holdout = 0.25, .keep_below_bytes = keep_below});
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    const DatasetInfo& info = (*dataset)->info();
    EXPECT_EQ(info.examples, 4);
    EXPECT_EQ(info.dense_features, 1);
    EXPECT_EQ(info.fields, 1);
    EXPECT_EQ(info.classes, 0);
    ASSERT_TRUE(info.target.has_value());
    EXPECT_EQ(info.target->mean, 20);
    EXPECT_DOUBLE_EQ(info.target->deviation, std::sqrt(200.0 / 3));
    const Batch batch = ReadAll(**dataset);
    const float unit = 1 / std::sqrt(200.0f / 3);
    EXPECT_THAT(batch.targets,
                ElementsAre(FloatEq(10 * unit), FloatEq(-10 * unit), 0, FloatEq(80 * unit)));
    EXPECT_THAT(batch.labels, IsEmpty());
    EXPECT_EQ(batch.dense.size(), 4);
    EXPECT_EQ(batch.dense[1], 0);
    EXPECT_EQ(batch.keys.size(), 4);
    EXPECT_NE((*dataset)->fingerprint(),
              CsvDataset::Create(path_, {.label = "n", .numeric = {"price"}, .categorical = {"c"}})
                  .value()
                  ->fingerprint());
  }
}

TEST_F(CsvTargetTest, OtherDataAreNormalisedAsTheWeightsWere) {
  const auto trained = CsvDataset::Create(path_, columns_, {.holdout = 0.25});
  ASSERT_TRUE(trained.ok()) << trained.status();
  const v1::CsvPreparation kept = PreparationOf(**trained);
  EXPECT_EQ(kept.classes_size(), 0);
  const auto later = CsvDataset::Create(folder_.Write("b.csv", "c,price,n\na,1020,9\nb,1020,9\n"),
                                        columns_, {.preparation = &kept});
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ((*later)->info().preparation, (*trained)->info().preparation);
  EXPECT_EQ((*later)->info().target->mean, 20);
  EXPECT_THAT(ReadAll(**later).targets, Each(FloatEq(1000 / std::sqrt(200.0f / 3))));
}

TEST_F(CsvTargetTest, EqualTargetsAreOnlyMovedToZero) {
  const auto dataset = CsvDataset::Create(
      folder_.Write("b.csv", "n,price,c\n1,7,a\n2,7,b\n3,9,b\n"), columns_, {.holdout = 1.0 / 3});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().target->deviation, 1);
  EXPECT_THAT(ReadAll(**dataset).targets, ElementsAre(0, 0, 2));
}

TEST_F(CsvTargetTest, ALabelThatIsNoNumberIsNamedWithLineAndColumn) {
  ExpectError("n,price,c\n1,30,a\n1,cheap,a\n", columns_,
              "bad.csv:3: the label in column 'price' (field 2) is not a number",
              "to predict classes, leave its regression out");
  ExpectError("n,price,c\n1,,a\n", columns_,
              "bad.csv:2: the label in column 'price' (field 2) is missing");
}

TEST_F(CsvTargetTest, RefusesThePreparationOfAnotherTask) {
  const auto error = [&](const CsvColumns& columns, const v1::CsvPreparation& preparation) {
    return std::string(
        CsvDataset::Create(path_, columns, {.preparation = &preparation}).status().message());
  };
  v1::CsvPreparation kept = PreparationOf(**CsvDataset::Create(path_, columns_));
  CsvColumns other = columns_;
  other.label = "n";
  other.numeric = {"price"};
  EXPECT_THAT(error(other, kept), HasSubstr("numeric columns that the weights were trained on"));
  kept.mutable_numeric(1)->set_name("cost");
  EXPECT_THAT(error(columns_, kept), HasSubstr("to predict the number in column 'cost'"));
  kept.mutable_numeric(1)->set_name("price");
  kept.mutable_numeric(1)->set_deviation(0);
  EXPECT_THAT(error(columns_, kept), HasSubstr("the deviation 0"));
  kept.mutable_numeric()->RemoveLast();
  EXPECT_THAT(error(columns_, kept), HasSubstr("weights of a model that predicts the label"));
}

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
