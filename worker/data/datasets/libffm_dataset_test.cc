#include "worker/data/datasets/libffm_dataset.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/compression/packed_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/batch.h"
#include "worker/data/parsing/temp_files_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr LibffmOptions kFields = {.features = FeatureForm::kOnePerField};

class LibffmDatasetTest : public testing::Test {
 protected:
  std::string Refusal(const std::string& text, const LibffmOptions& options = {}) {
    const auto dataset = LibffmDataset::Create(folder_.Write("bad.ffm", text), options);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(dataset.status().message());
  }

  Batch ReadAll(const std::string& text, const LibffmOptions& options = {}) {
    const auto dataset = LibffmDataset::Create(folder_.Write("a.ffm", text), options);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    Batch batch;
    if (!dataset.ok()) return batch;
    std::vector<int64_t> all;
    for (int64_t i = 0; i < (*dataset)->info().examples; ++i) all.push_back(i);
    EXPECT_TRUE((*dataset)->Read(all, batch).ok());
    return batch;
  }

  const TempFolder folder_;
};

TEST_F(LibffmDatasetTest, FieldAndFeatureMakeTheKeyOfAValue) {
  const std::string text = "1 0:3:0.5 7:3:-2\r\n\n-1\n-1\t7:3:1e2   0:4:3 0:3:1";
  const Batch batch = ReadAll(text);
  EXPECT_EQ(batch.examples, 3);
  EXPECT_THAT(batch.offsets, ElementsAre(0, 2, 2, 5));
  EXPECT_THAT(batch.values, ElementsAre(0.5, -2, 100, 3, 1));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0, 0));
  ASSERT_EQ(batch.keys.size(), 5u);
  EXPECT_EQ(batch.keys[0], batch.keys[4]);
  EXPECT_EQ(batch.keys[1], batch.keys[2]);
  EXPECT_NE(batch.keys[0], batch.keys[1]);
  EXPECT_NE(batch.keys[0], batch.keys[3]);
  for (const std::string& packed : {Gzip(text), Zstd(text)}) {
    EXPECT_EQ(ReadAll(packed).keys, batch.keys);
    EXPECT_EQ(ReadAll(packed).values, batch.values);
  }
  EXPECT_THAT(ReadAll("1 0:1:1\n0 0:2:1\n").labels, ElementsAre(1, 0));
}

TEST_F(LibffmDatasetTest, ClassesOfMinusOneAndOneKeepTheirNames) {
  const auto dataset = LibffmDataset::Create(folder_.Write("a.ffm", "-1 0:1:1\n1 0:2:1\n"), {});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().classes, 2);
  EXPECT_EQ((*dataset)->info().fields, 0);
  v1::DataPreparation kept;
  ASSERT_TRUE(kept.ParseFromString((*dataset)->info().preparation));
  EXPECT_THAT(kept.csv().classes(), ElementsAre("-1", "1"));
  const auto same = LibffmDataset::Create(folder_.Write("b.ffm", "-1 0:1:1\n1 0:2:1\n"), {});
  const auto other = LibffmDataset::Create(folder_.Write("c.ffm", "-1 0:1:1\n1 1:2:1\n"), {});
  EXPECT_EQ((*dataset)->fingerprint(), (*same)->fingerprint());
  EXPECT_NE((*dataset)->fingerprint(), (*other)->fingerprint());
}

TEST_F(LibffmDatasetTest, AFeatureOfEachFieldIsInTheOrderOfFields) {
  const auto dataset = LibffmDataset::Create(
      folder_.Write("a.ffm", "1 2:9:1 0:3:1 1:5:1\n0 0:3:1 2:9:1\n1\n"), kFields);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().fields, 3);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({0, 1, 2}, batch).ok());
  EXPECT_THAT(batch.offsets, ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(batch.values, Each(1));
  const auto key = [&](int example, int field) { return batch.keys[3 * example + field]; };
  EXPECT_EQ(key(0, 0), key(1, 0));
  EXPECT_EQ(key(0, 2), key(1, 2));
  // What is missing is a feature of the field.
  EXPECT_NE(key(0, 1), key(1, 1));
  EXPECT_EQ(key(1, 1), key(2, 1));
  EXPECT_NE(key(2, 0), key(2, 1));
}

TEST_F(LibffmDatasetTest, WhatAModelOfFieldsCannotReadIsRefused) {
  EXPECT_THAT(Refusal("1 0:1:1\n0 0:1:0.5\n", kFields),
              AllOf(HasSubstr("bad.ffm:2: entry 1 has another value than 1"),
                    HasSubstr("take logistic_regression")));
  EXPECT_THAT(Refusal("1 0:1:1 1:1:1 0:2:1\n", kFields),
              HasSubstr("bad.ffm:1: the line has two features of field 0"));
  EXPECT_THAT(Refusal("1 4096:1:1\n", kFields),
              HasSubstr("bad.ffm:1: entry 1 is of field 4096; model.deep_fm reads fields 0 to"));
}

TEST_F(LibffmDatasetTest, WhatIsWrongIsNamedByLineAndEntry) {
  EXPECT_THAT(Refusal("1 0:1:1\n0 0:1:1 1:1\n"),
              AllOf(HasSubstr("bad.ffm:2: entry 2 has 2 parts with ':' between them; write each as "
                              "field:feature:value"),
                    HasSubstr("data.libsvm")));
  EXPECT_THAT(Refusal("1 0:1:1:1\n"), HasSubstr("bad.ffm:1: entry 1 has 4 parts"));
  EXPECT_THAT(Refusal("1 x:1:1\n"), HasSubstr("entry 1 has a field, 1 character, that is not"));
  EXPECT_THAT(Refusal("1 0:-1:1\n"), HasSubstr("entry 1 has a feature, 2 characters, that is not"));
  EXPECT_THAT(Refusal("1 0:1:nan\n"), HasSubstr("entry 1 has a value, 3 characters, that is "));
  EXPECT_THAT(Refusal("yes 0:1:1\n"), HasSubstr("bad.ffm:1: "));
  EXPECT_THAT(Refusal("-1 0:1:1\n2 0:1:1\n"), HasSubstr("bad.ffm"));
  EXPECT_THAT(Refusal("\n \n"), HasSubstr("bad.ffm' holds no example, only blank lines"));
  EXPECT_THAT(Refusal(""), HasSubstr("bad.ffm' holds no example"));
  EXPECT_THAT(Refusal(Gzip("1 0:1:1\n").substr(0, 20)), HasSubstr("ends early"));
  EXPECT_THAT(Refusal("%PDF-1.4\n"), HasSubstr("bad.ffm"));
  EXPECT_EQ(LibffmDataset::Create(absl::StrCat(folder_.path(), "/none"), {}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
