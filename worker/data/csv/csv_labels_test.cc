#include "worker/data/csv/csv_labels.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CsvLabelsTest : public ::testing::Test {
 protected:
  // Labels of lines 1, 2, and so on; the first that is refused ends it.
  absl::Status Add(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const absl::Status status = labels_.Add(text, path_, ++line_);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  // All labels by what they teach.
  absl::StatusOr<CsvLabels::Result> Classes() {
    const absl::StatusOr<std::vector<std::string>> classes = labels_.Learn();
    if (!classes.ok()) return classes.status();
    learned_ = *classes;
    return labels_.Finish(*classes);
  }

  const std::string path_ = "f.csv";
  CsvLabels labels_;
  int64_t line_ = 0;
  std::vector<std::string> learned_;
};

TEST_F(CsvLabelsTest, NumbersFromZeroAreTheClasses) {
  ASSERT_TRUE(Add({"0", "2", "1.0", "+2", "4"}).ok());
  const auto result = Classes();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(learned_, IsEmpty());
  EXPECT_THAT(result->labels, ElementsAre(0, 2, 1, 2, 4));
  EXPECT_EQ(result->classes, 5);
}

TEST_F(CsvLabelsTest, OnesAloneAreClassOneOfTwo) {
  ASSERT_TRUE(Add({"1", "1"}).ok());
  const auto result = Classes();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->labels, ElementsAre(1, 1));
  EXPECT_EQ(result->classes, 2);
}

TEST_F(CsvLabelsTest, NumbersFromOneAreCountedFromZero) {
  ASSERT_TRUE(Add({"3", "1", "1"}).ok());
  const auto result = Classes();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(learned_, ElementsAre("1", "2", "3"));
  EXPECT_THAT(result->labels, ElementsAre(2, 0, 0));
  EXPECT_EQ(result->classes, 3);
}

TEST_F(CsvLabelsTest, MinusOneAndOneAreTwoClasses) {
  ASSERT_TRUE(Add({"-1", "+1", "-1"}).ok());
  const auto result = Classes();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(learned_, ElementsAre("-1", "1"));
  EXPECT_THAT(result->labels, ElementsAre(0, 1, 0));
}

TEST_F(CsvLabelsTest, TextsAreClassesInTheirOrder) {
  ASSERT_TRUE(Add({"versicolor", "setosa", "virginica", "setosa"}).ok());
  const auto result = Classes();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(learned_, ElementsAre("setosa", "versicolor", "virginica"));
  EXPECT_THAT(result->labels, ElementsAre(1, 0, 2, 0));
  EXPECT_EQ(result->classes, 3);
}

TEST_F(CsvLabelsTest, KeptClassesMeanTheSameWhateverIsThere) {
  ASSERT_TRUE(Add({"virginica", "virginica"}).ok());
  const auto result = labels_.Finish({"setosa", "versicolor", "virginica"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->labels, ElementsAre(2, 2));
  EXPECT_EQ(result->classes, 3);
}

TEST_F(CsvLabelsTest, KeptNumbersMeanTheSameWhateverIsThere) {
  ASSERT_TRUE(Add({"2", "2.0"}).ok());
  const auto result = labels_.Finish({"1", "2", "3"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->labels, ElementsAre(1, 1));
  EXPECT_EQ(result->classes, 3);
}

TEST_F(CsvLabelsTest, ALabelThatTheWeightsDoNotKnowIsNamedWithItsLine) {
  ASSERT_TRUE(Add({"a", "b", "a", "c"}).ok());
  const absl::Status text = labels_.Finish({"a", "b"}).status();
  EXPECT_EQ(text.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.message()),
              AllOf(HasSubstr("f.csv:4: "), HasSubstr("a text, is none of the 2 classes")));

  labels_ = {};
  ASSERT_TRUE(Add({"1", "2", "0"}).ok());
  EXPECT_THAT(std::string(labels_.Finish({"1", "2"}).status().message()),
              AllOf(HasSubstr("f.csv:7: "), HasSubstr("a number, is none of the 2 classes")));

  labels_ = {};
  ASSERT_TRUE(Add({"1", "0", "-1"}).ok());
  EXPECT_THAT(std::string(labels_.Finish({}).status().message()),
              AllOf(HasSubstr("f.csv:10: "), HasSubstr("none of the numbers from 0")));
}

TEST_F(CsvLabelsTest, LabelsFollowOneScheme) {
  ASSERT_TRUE(Add({"0", "yes", "1"}).ok());
  EXPECT_THAT(std::string(Classes().status().message()),
              AllOf(HasSubstr("f.csv:2: "), HasSubstr("line 1 of f.csv is a number")));
  labels_ = {};
  ASSERT_TRUE(Add({"-1", "2"}).ok());
  EXPECT_THAT(std::string(Classes().status().message()),
              AllOf(HasSubstr("f.csv:5: "), HasSubstr("line 4 of f.csv has -1")));
}

TEST_F(CsvLabelsTest, RefusesWhatIsNoLabelAndQuotesNothingOfIt) {
  for (const std::string bad : {"0.5", "-2", "1000001", "nan", "-Inf", "1e999"}) {
    const absl::Status status = labels_.Add(bad, path_, 3);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("f.csv:3: the label is")) << bad;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("'"))) << bad;
  }
  EXPECT_THAT(std::string(labels_.Add("", path_, 3).message()), HasSubstr("label is missing"));
  EXPECT_THAT(std::string(labels_.Add("\xff", path_, 3).message()), HasSubstr("not UTF-8"));
  EXPECT_THAT(std::string(labels_.Add(std::string(65, 'x'), path_, 3).message()),
              HasSubstr("a text of 65 bytes"));
}

TEST_F(CsvLabelsTest, MissingLabelsAreRefusedHoweverTheyAreWritten) {
  for (const std::string missing : {"", "?", "NA", "n/a", "null", "NaN"}) {
    EXPECT_EQ(labels_.Add(missing, path_, 3).message(),
              "f.csv:3: the label is missing; every example needs one, so drop the record");
  }
  // These name classes.
  ASSERT_TRUE(Add({"+", "-", "none"}).ok());
  ASSERT_TRUE(Classes().ok());
  EXPECT_THAT(learned_, ElementsAre("+", "-", "none"));
}

TEST_F(CsvLabelsTest, FreeTextIsNoClass) {
  for (size_t i = 0; i < CsvLabels::kMostNamed; ++i) ASSERT_TRUE(Add({absl::StrCat("t", i)}).ok());
  EXPECT_TRUE(Add({"t1"}).ok());
  EXPECT_THAT(std::string(Add({"one more"}).message()),
              HasSubstr("more than 4096 different texts"));
}

TEST_F(CsvLabelsTest, RefusesClassesThatAreThereTwice) {
  ASSERT_TRUE(Add({"a"}).ok());
  EXPECT_EQ(labels_.Finish({"a", "a"}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster
