#include "worker/data/datasets/libsvm_dataset.h"

#include <string>

#include "common/compression/packed_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/batch.h"
#include "worker/data/csv/csv_preparation.h"
#include "worker/data/parsing/temp_files_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr LibsvmOptions kFromZero = {.first_index = LibsvmOptions::FirstIndex::kZero};

class LibsvmDatasetTest : public testing::Test {
 protected:
  // That a file of this text is refused, naming the line and these texts.
  void ExpectError(const std::string& text, int line, const std::string& a,
                   const std::string& b = "") {
    const std::string path = folder_.Write("bad.libsvm", text);
    const auto dataset = LibsvmDataset::Create(path, {});
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(
        std::string(dataset.status().message()),
        AllOf(HasSubstr(path + ":" + std::to_string(line) + ": "), HasSubstr(a), HasSubstr(b)));
  }

  const TempFolder folder_;
};

TEST_F(LibsvmDatasetTest, AByteOrderMarkIsSkipped) {
  const auto dataset = LibsvmDataset::Create(folder_.Write("mark.libsvm",
                                                           "\xef\xbb\xbf"
                                                           "1 1:1\n0 1:2\n"),
                                             {});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().examples, 2);
  EXPECT_EQ((*dataset)->info().classes, 2);
}

TEST_F(LibsvmDatasetTest, RefusesWhatIsNoText) {
  const std::string path = folder_.Write("a.libsvm", Gzip("1 1:1\n"));
  const auto dataset = LibsvmDataset::Create(path, {});
  EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(dataset.status().message()),
              HasSubstr("'" + path + "' is compressed by gzip; unpack it first"));
}

TEST_F(LibsvmDatasetTest, ReadsExamplesInCompressedRows) {
  const std::string path = folder_.Write("a.libsvm",
                                         "# made by hand\n"
                                         "+1 1:0.5 3:-2\r\n"
                                         "\n"
                                         "-1\n"
                                         "-1\t2:1e2   18446744073709551615:3 # the end");
  const auto dataset = LibsvmDataset::Create(path, {});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo& info = (*dataset)->info();
  EXPECT_EQ(info.examples, 3);
  EXPECT_TRUE(info.sparse);
  EXPECT_EQ(info.fields, 0);
  EXPECT_EQ(info.classes, 2);
  EXPECT_EQ(info.dense_features, 0);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({2, 1, 0}, batch).ok());
  EXPECT_EQ(batch.examples, 3);
  EXPECT_THAT(batch.offsets, ElementsAre(0, 2, 2, 4));
  EXPECT_THAT(batch.keys, ElementsAre(1, 18446744073709551614u, 0, 2));
  EXPECT_THAT(batch.values, ElementsAre(100, 3, 0.5, -2));
  EXPECT_THAT(batch.labels, ElementsAre(0, 0, 1));
  EXPECT_THAT(batch.dense, IsEmpty());
}

TEST_F(LibsvmDatasetTest, ClassesAreCalledAsWhereTheWeightsWereTrained) {
  const auto trained = LibsvmDataset::Create(folder_.Write("a", "+1 1:1\n-1 2:1\n"), {});
  ASSERT_TRUE(trained.ok()) << trained.status();
  v1::DataPreparation kept;
  ASSERT_TRUE(kept.ParseFromString((*trained)->info().preparation));
  EXPECT_THAT(kept.csv().classes(), ElementsAre("-1", "1"));
  const std::string numbered = folder_.Write("b", "1 1:1\n0 2:1\n");
  EXPECT_EQ(LibsvmDataset::Create(numbered, {}).value()->info().preparation, "");
  LibsvmOptions options;
  options.preparation = &kept.csv();
  EXPECT_EQ(LibsvmDataset::Create(numbered, options).value()->info().preparation,
            (*trained)->info().preparation);
}

TEST_F(LibsvmDatasetTest, CountsFromZeroIfAsked) {
  const std::string path = folder_.Write("a.libsvm", "0 0:1 2:1\n2 1:1\n");
  const auto dataset = LibsvmDataset::Create(path, kFromZero);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->info().classes, 3);
  Batch batch;
  ASSERT_TRUE((*dataset)->Read({0}, batch).ok());
  EXPECT_THAT(batch.keys, ElementsAre(0, 2));
}

TEST_F(LibsvmDatasetTest, FingerprintIsOfContentAndFirstIndex) {
  const std::string one = folder_.Write("one", "0 1:1\n1 2:1\n");
  const std::string same = folder_.Write("same", "0 1:1\n1 2:1\n");
  const std::string other = folder_.Write("other", "0 1:1\n1 2:2\n");
  const uint64_t fingerprint = LibsvmDataset::Create(one, {}).value()->fingerprint();
  EXPECT_EQ(LibsvmDataset::Create(same, {}).value()->fingerprint(), fingerprint);
  EXPECT_NE(LibsvmDataset::Create(other, {}).value()->fingerprint(), fingerprint);
  EXPECT_NE(LibsvmDataset::Create(one, kFromZero).value()->fingerprint(), fingerprint);
}

TEST_F(LibsvmDatasetTest, ABadIndexIsNamedWithItsLineAndARemedy) {
  ExpectError("1 1:1\n0 0:1\n", 2, "index 0", "zero_based");
  ExpectError("1 -3:1\n", 1, "the index of entry 1, 2 characters, is not a whole number");
  ExpectError("1 qid:7 1:1\n", 1, "the index of entry 1, 3 characters,");
  ExpectError("1 1.5:1\n", 1, "the index of entry 1, 3 characters,");
  ExpectError("1 99999999999999999999:1\n", 1, "64 bits");
  ExpectError("1 1:1\n\n1 7:1 3:1\n", 3, "the index of entry 2 is not above", "sort");
  ExpectError("1 3:1 3:2\n", 1, "the index of entry 2 is not above");
  ExpectError("1 3\n", 1, "entry 1, 1 character, is no feature", "index:value");
}

TEST_F(LibsvmDatasetTest, ABadValueIsNamedWithItsLine) {
  ExpectError("1 1:1\n0 2:nan\n", 2, "the value of entry 1, 3 characters,", "drop or correct");
  ExpectError("1 1:inf\n", 1, "the value of entry 1, 3 characters,", "infinite");
  ExpectError("1 1:1e60\n", 1, "the value of entry 1, 4 characters,");
  ExpectError("1 1:\n", 1, "the value of entry 1, 0 characters,");
  ExpectError("1 1:2:3\n", 1, "the value of entry 1, 3 characters,");
}

TEST_F(LibsvmDatasetTest, ABadLabelIsNamedWithItsLine) {
  ExpectError("1 1:1\nspam 1:1\n", 2, "the label, 4 characters, is not a number");
  ExpectError("0.5 1:1\n", 1, "the label, 3 characters, is no class");
  ExpectError("NaN 1:1\n", 1, "the label, 3 characters, is not");
  ExpectError("-1 1:1\n3 1:1\n", 2, "line 1 has -1");
}

TEST_F(LibsvmDatasetTest, NumbersToPredictAreNormalisedOverTrainingExamples) {
  const std::string path = folder_.Write("a.libsvm", "-1.5 1:1\n0.5 2:1\n10.5 1:2\n");
  LibsvmOptions options;
  options.labels = LabelKind::kNumber;
  options.holdout = 0.3;
  const auto trained = LibsvmDataset::Create(path, options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ((*trained)->info().examples, 3);
  EXPECT_EQ((*trained)->info().classes, 0);
  EXPECT_EQ((*trained)->info().target->mean, -0.5);
  EXPECT_EQ((*trained)->info().target->deviation, 1);
  Batch batch;
  ASSERT_TRUE((*trained)->Read({2, 0, 1}, batch).ok());
  EXPECT_THAT(batch.targets, ElementsAre(11, -1, 1));
  EXPECT_THAT(batch.labels, IsEmpty());
  const std::string either = folder_.Write("either.libsvm", "-1 1:1\n1 2:1\n");
  EXPECT_NE(LibsvmDataset::Create(either, options).value()->fingerprint(),
            LibsvmDataset::Create(either, {}).value()->fingerprint());

  // Other data are normalised as the weights were trained.
  v1::DataPreparation kept;
  ASSERT_TRUE(kept.ParseFromString((*trained)->info().preparation));
  EXPECT_EQ(TargetColumn(kept.csv()).name(), "label");
  options.preparation = &kept.csv();
  const auto later = LibsvmDataset::Create(folder_.Write("b.libsvm", "99.5 1:1\n"), options);
  ASSERT_TRUE(later.ok()) << later.status();
  ASSERT_TRUE((*later)->Read({0}, batch).ok());
  EXPECT_THAT(batch.targets, ElementsAre(100));
  EXPECT_EQ((*later)->info().preparation, (*trained)->info().preparation);
  kept.mutable_csv()->clear_numeric();
  EXPECT_EQ(LibsvmDataset::Create(path, options).status().code(),
            absl::StatusCode::kInvalidArgument);

  options.preparation = nullptr;
  const absl::Status bad =
      LibsvmDataset::Create(folder_.Write("c.libsvm", "1 1:1\nlow 1:1\n"), options).status();
  EXPECT_THAT(std::string(bad.message()),
              HasSubstr("c.libsvm:2: the label, 3 characters, is not a number"));
}

TEST_F(LibsvmDatasetTest, RefusesFilesWithoutExamplesAndMissingOnes) {
  for (const char* text : {"", "# nothing\n\n"}) {
    const std::string path = folder_.Write("empty.libsvm", text);
    const auto dataset = LibsvmDataset::Create(path, {});
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(dataset.status().message()), HasSubstr(path));
  }
  const std::string absent = folder_.path() + "/absent";
  const auto missing = LibsvmDataset::Create(absent, {});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(absent));
}

}  // namespace
}  // namespace muster
