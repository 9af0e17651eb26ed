// Tables whose label is a number to predict.

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/batch.h"
#include "worker/data/csv/csv_dataset_for_testing.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

}  // namespace
}  // namespace muster
