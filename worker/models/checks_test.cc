#include "worker/models/checks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CheckFieldTest, Bounds) {
  EXPECT_TRUE(CheckField("f", 2, 2, 5).ok());
  EXPECT_TRUE(CheckField("f", 5, 2, 5).ok());
  EXPECT_EQ(CheckField("f", 1, 2, 5).message(), "f is 1; it must be from 2 to 5.");
  EXPECT_EQ(CheckField("f", 6, 2, 5).message(), "f is 6; it must be from 2 to 5.");
}

TEST(CheckHiddenTest, NumberOfLayers) {
  EXPECT_TRUE(CheckHidden("h", {}, 0).ok());
  EXPECT_THAT(CheckHidden("h", {}, 1).message(), HasSubstr("h is empty"));
  const std::vector<uint32_t> many(100, 4);
  EXPECT_THAT(CheckHidden("h", many, 0).message(), HasSubstr("100 layers"));
  EXPECT_THAT(CheckHidden("h", {4, 100000}, 0).message(), HasSubstr("h[1] is 100000"));
}

TEST(DescribeDataTest, NamesAllParts) {
  EXPECT_EQ(DescribeData({}), "no features");
  EXPECT_EQ(DescribeData({.dense_features = 13, .sparse = true, .fields = 26}),
            "13 dense features and 26 categorical fields");
  EXPECT_EQ(DescribeData({.sparse = true}), "sparse features");
  EXPECT_EQ(DescribeData({.vocabulary = 256}), "text");
}

Batch OneSparseExample() {
  Batch batch;
  batch.Clear();
  batch.examples = 1;
  batch.keys = {4, 5};
  batch.values = {1, 1};
  batch.offsets = {0, 2};
  batch.labels = {1};
  return batch;
}

TEST(CheckSparseTest, RowsMustBeWhole) {
  EXPECT_TRUE(CheckSparse(OneSparseExample()).ok());
  Batch batch = OneSparseExample();
  batch.offsets = {0};
  EXPECT_THAT(CheckSparse(batch).message(), HasSubstr("1 row offsets, not 2"));
  batch.offsets = {0, 1};
  EXPECT_THAT(CheckSparse(batch).message(), HasSubstr("2 sparse keys, not 1"));
  batch.examples = 2;
  batch.offsets = {0, 5, 2};
  EXPECT_THAT(CheckSparse(batch).message(), AllOf(HasSubstr("Example 1"), HasSubstr("[5, 2)")));
}

TEST(CheckLabelsTest, OnePerExampleInRange) {
  Batch batch = OneSparseExample();
  EXPECT_TRUE(CheckLabels(batch, 2).ok());
  EXPECT_THAT(CheckLabels(batch, 1).message(), HasSubstr("label 1"));
  batch.labels.push_back(0);
  EXPECT_THAT(CheckLabels(batch, 2).message(), HasSubstr("2 labels, not 1"));
}

}  // namespace
}  // namespace muster
