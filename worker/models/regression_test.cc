#include "worker/models/regression.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// The loss of an error of 3.
double LossOf(const v1::RegressionSpec& spec) {
  const auto head = CreateRegressionHead("field", spec, {.target = TargetScale()});
  EXPECT_TRUE(head.ok()) << head.status();
  if (!head.ok()) return 0;
  float output = 3;
  float prediction = 0;
  return head->Forward({}, {0}, absl::MakeSpan(&output, 1), absl::MakeSpan(&prediction, 1))
      .loss_sum;
}

TEST(CreateRegressionHeadTest, HasTheLossThatIsAskedFor) {
  v1::RegressionSpec spec;
  EXPECT_EQ(LossOf(spec), 4.5);
  spec.set_loss(v1::RegressionSpec::SQUARED);
  EXPECT_EQ(LossOf(spec), 4.5);
  spec.set_loss(v1::RegressionSpec::ABSOLUTE);
  EXPECT_EQ(LossOf(spec), 3);
  spec.set_loss(v1::RegressionSpec::HUBER);
  EXPECT_EQ(LossOf(spec), 2.5);
  spec.set_huber_delta(2);
  EXPECT_EQ(LossOf(spec), 4);
}

TEST(CreateRegressionHeadTest, NamesWhatIsWrong) {
  const auto error = [](const v1::RegressionSpec& spec, const DatasetInfo& data) {
    return std::string(CreateRegressionHead("field", spec, data).status().message());
  };
  v1::RegressionSpec spec;
  EXPECT_THAT(error(spec, {.classes = 2}), HasSubstr("field predicts a number"));
  spec.set_huber_delta(std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(error(spec, {.target = TargetScale()}), HasSubstr("field.huber_delta is nan"));
  spec.clear_huber_delta();
  spec.set_loss(static_cast<v1::RegressionSpec::Loss>(9));
  EXPECT_THAT(error(spec, {.target = TargetScale()}), HasSubstr("field.loss is 9"));
}

TEST(CheckTargetsTest, OnePerExample) {
  Batch batch;
  batch.examples = 2;
  batch.targets = {1, 2};
  EXPECT_TRUE(CheckTargets(batch).ok());
  batch.targets.pop_back();
  EXPECT_THAT(CheckTargets(batch).message(), HasSubstr("2 examples has 1 numbers"));
}

}  // namespace
}  // namespace muster
