// Tables as others publish them: Criteo's and Avazu's files, and Parquet.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files/bytes_of_file.h"
#include "common/parquet/parquet_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/data/csv/csv_dataset_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

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
  // They are texts as a label.
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

}  // namespace
}  // namespace muster
