#include "tests/golden/golden_record.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GoldenRecord Example() {
  const std::vector<float> values = {0.5f, -0.0f, 1e-40f, 3, 7};
  GoldenRecord record;
  record.tensors = {{"first", {5}, GoldenValues::Of(values), GoldenValues::Of({values.data(), 2})},
                    {"second", {1, 5}, GoldenValues::Of(values), {}}};
  record.steps = {{1, 0, 0.1, {7, 8}}, {1, 1, -0.0, {9, 0xffffffff}}, {2, 0, 1e300, {1, 2}}};
  record.evaluations = {{2, 1.0 / 3}};
  record.generated = {3, 0, 12};
  record.logits = GoldenValues::Of(values);
  return record;
}

TEST(GoldenRecordTest, KeepsTheFirstAndTheLastValueAndWhatLiesBetween) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6};
  EXPECT_THAT(GoldenValues::Of(values).samples, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(GoldenValues::Of({values.data(), 1}).samples, ElementsAre(0));
  EXPECT_THAT(GoldenValues::Of({}).samples, IsEmpty());
}

TEST(GoldenRecordTest, WhatIsReadIsWhatWasWritten) {
  const std::string text = FormatGoldenRecord(Example());
  const auto read = ParseGoldenRecord(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FormatGoldenRecord(*read), text);
  EXPECT_THAT(DescribeDifferences(*read, Example()), IsEmpty());
}

TEST(GoldenRecordTest, OtherLinesAreRefused) {
  for (const char* line : {"step 1 slot 0 loss x gradients", "step 1", "tensor w 2,x 00", "what",
                           "evaluation 1 loss 0x1p+0 more"}) {
    EXPECT_THAT(std::string(ParseGoldenRecord(line).status().message()), HasSubstr(line));
  }
}

TEST(GoldenRecordTest, ARoundingIsNamedWithStepAndTensor) {
  GoldenRecord actual = Example();
  actual.steps[0].gradients[0] = 1;
  actual.steps[2].gradients[1] = 1;
  actual.tensors[0].first_gradient = GoldenValues::Of({std::nextafter(0.5f, 1.0f), -0.0f});
  EXPECT_THAT(DescribeDifferences(actual, Example()),
              ElementsAre("step 1, slot 0: the gradient of first [5]: 1 of 2 kept samples differ, "
                          "by at most 1 ulp: 0.50000006, was 0.5",
                          "step 2, slot 0: the gradient of second [1, 5]"));
}

TEST(GoldenRecordTest, EveryKindOfValueCounts) {
  GoldenRecord actual = Example();
  actual.steps[1].loss_sum = 0.0;
  actual.tensors[1].trained.fingerprint ^= 1;
  actual.evaluations[2] = std::nextafter(1.0 / 3, 1.0);
  actual.logits.fingerprint ^= 1;
  EXPECT_THAT(DescribeDifferences(actual, Example()),
              ElementsAre(HasSubstr("step 1, slot 1: loss"),
                          HasSubstr("at the end, second [1, 5]: none of 4 kept samples differs"),
                          HasSubstr("evaluation at clock 2"), HasSubstr("logits of generation")));
  actual.generated[0] = 4;
  EXPECT_THAT(DescribeDifferences(actual, Example()).back(), HasSubstr("4,0,12, were 3,0,12"));
}

TEST(GoldenRecordTest, AnotherJobIsSaidToBeOne) {
  GoldenRecord actual = Example();
  actual.tensors[1].shape = {5, 1};
  EXPECT_THAT(DescribeDifferences(actual, Example()),
              ElementsAre("another job than was recorded: second [5, 1], was second [1, 5]"));
}

}  // namespace
}  // namespace muster
