#include "worker/models/linear_model.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/models/model_check_for_testing.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBinary[] = "logistic_regression {}";

// Rows of one to four features out of eight; the second example has none.
Batch Sparse(int64_t classes) {
  Batch batch;
  batch.Clear();
  batch.examples = 6;
  batch.keys = {3, 5, 1, 3, 7, 9, 5, 5, 2, 4};
  batch.offsets = {0, 2, 2, 6, 7, 8, 10};
  batch.values = RandomValues(10, 1);
  batch.labels = {0, 1, 1, 0, 1, 0};
  for (int32_t& label : batch.labels) label = label * (classes - 1);
  return batch;
}

TEST(LogisticRegressionTest, BinaryGradients) {
  CheckModel(*MakeModel(kBinary, {.sparse = true, .classes = 2}), Sparse(2));
}

TEST(LogisticRegressionTest, MultinomialGradients) {
  CheckModel(*MakeModel("logistic_regression { classes: 5 }", {.sparse = true, .classes = 5}),
             Sparse(5));
}

TEST(LogisticRegressionTest, GradientsWithDenseFeatures) {
  Batch batch = Sparse(3);
  batch.dense = RandomValues(6 * 4, 2);
  CheckModel(*MakeModel("logistic_regression { classes: 3 }",
                        {.dense_features = 4, .sparse = true, .classes = 3}),
             batch);
}

TEST(LogisticRegressionTest, GradientsOnDenseFeaturesAlone) {
  Batch batch;
  batch.Clear();
  batch.examples = 3;
  batch.dense = RandomValues(3 * 4, 2);
  batch.labels = {0, 1, 1};
  const auto model = MakeModel(kBinary, {.dense_features = 4, .classes = 2});
  EXPECT_THAT(model->description().sparse_tables, IsEmpty());
  CheckModel(*model, batch);
}

TEST(LogisticRegressionTest, Probabilities) {
  CheckProbabilities(*MakeModel(kBinary, {.sparse = true, .classes = 2}), Sparse(2), 2);
  CheckProbabilities(
      *MakeModel("logistic_regression { classes: 5 }", {.sparse = true, .classes = 5}), Sparse(5),
      5);
}

TEST(LogisticRegressionTest, StartsWithoutAnOpinion) {
  const auto model =
      MakeModel("logistic_regression { classes: 2 }", {.sparse = true, .classes = 2});
  LocalTrainer trainer(*model, 1);
  ASSERT_TRUE(trainer.Evaluate(Sparse(2)).ok());
  EXPECT_DOUBLE_EQ(trainer.mean_loss(), std::log(2));
  EXPECT_THAT(trainer.micro_batch().scores, Each(0.5));
}

TEST(LogisticRegressionTest, LearnsTheClassOfEachFeature) {
  // Feature k speaks for class k % 3; feature 100, in all examples, for none.
  Batch batch;
  batch.Clear();
  for (int32_t i = 0; i < 60; ++i) {
    batch.keys.push_back(100);
    batch.keys.push_back(i % 12);
    batch.values.insert(batch.values.end(), {1, 2});
    batch.offsets.push_back(batch.keys.size());
    batch.labels.push_back(i % 3);
  }
  batch.examples = 60;
  const auto model =
      MakeModel("logistic_regression { classes: 3 }", {.sparse = true, .classes = 3});
  LocalTrainer trainer(*model, 1);
  for (int step = 0; step < 100; ++step) ASSERT_TRUE(trainer.Step(batch, 1).ok());
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_EQ(trainer.micro_batch().correct, 60);
  EXPECT_LT(trainer.mean_loss(), 0.1);
}

TEST(LogisticRegressionTest, RefusesBatchesOfOtherData) {
  const auto model = MakeModel(kBinary, {.sparse = true, .classes = 2});
  const auto micro_batch = model->NewMicroBatch();
  Batch batch = Sparse(2);
  batch.dense.resize(6);
  EXPECT_THAT(model->Load(batch, *micro_batch).message(), HasSubstr("6 dense values"));
  batch = Sparse(2);
  batch.values.pop_back();
  EXPECT_THAT(model->Load(batch, *micro_batch).message(),
              AllOf(HasSubstr("9 sparse values"), HasSubstr("10")));
  batch = Sparse(2);
  batch.labels[3] = -1;
  EXPECT_THAT(model->Load(batch, *micro_batch).message(), HasSubstr("label -1"));
}

TEST(LogisticRegressionTest, NamesWhatIsWrong) {
  EXPECT_THAT(CreateError(kBinary, {.context = 3, .vocabulary = 256, .classes = 256}),
              AllOf(HasSubstr("text"), HasSubstr("ngram")));
  EXPECT_THAT(CreateError(kBinary, {.sparse = true, .classes = 10}),
              AllOf(HasSubstr("model.logistic_regression.classes gives 2"), HasSubstr("to 10")));
  EXPECT_THAT(CreateError("logistic_regression { classes: 1 }", {.sparse = true, .classes = 2}),
              HasSubstr("classes is 1; it must be from 2"));
}

DatasetInfo MixedNumbers() {
  return {.dense_features = 4, .sparse = true, .target = TargetScale()};
}

TEST(LinearRegressionTest, Gradients) {
  Batch batch = Sparse(2);
  batch.labels.clear();
  batch.dense = RandomValues(6 * 4, 2);
  batch.targets = RandomValues(6, 3);
  CheckModel(*MakeModel("linear_regression {}", MixedNumbers()), batch);
  CheckModel(*MakeModel("linear_regression { loss: ABSOLUTE }", MixedNumbers()), batch);
  CheckModel(*MakeModel("linear_regression { loss: HUBER huber_delta: 0.5 }", MixedNumbers()),
             batch);
  batch.dense.clear();
  CheckModel(*MakeModel("linear_regression {}", {.sparse = true, .target = TargetScale()}), batch);
}

TEST(LinearRegressionTest, HasTheTensorsOfABinaryClassifier) {
  const ModelDescription number = MakeModel("linear_regression {}", MixedNumbers())->description();
  EXPECT_EQ(number.default_metric, "rmse");
  ASSERT_EQ(number.sparse_tables.size(), 1);
  EXPECT_EQ(number.sparse_tables[0].dim, 1);
  ASSERT_EQ(number.tensors.size(), 2);
  EXPECT_EQ(number.tensors[1].name, "dense.weight");
  EXPECT_EQ(number.tensors[1].elements(), 4);
}

TEST(LinearRegressionTest, RecoversWhatTheTargetsWereMadeOf) {
  Batch batch;
  batch.Clear();
  batch.examples = 50;
  batch.dense = RandomValues(50 * 2, 5);
  for (int i = 0; i < 50; ++i) {
    batch.targets.push_back(0.5f + 2 * batch.dense[2 * i] - 1.5f * batch.dense[2 * i + 1]);
  }
  const auto model =
      MakeModel("linear_regression {}", {.dense_features = 2, .target = TargetScale()});
  LocalTrainer trainer(*model, 1);
  for (int step = 0; step < 200; ++step) ASSERT_TRUE(trainer.Step(batch, 0.5).ok());
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_LT(trainer.mean_loss(), 1e-8);
  EXPECT_NEAR(trainer.parameters()[0][0], 0.5, 1e-3);
  EXPECT_NEAR(trainer.parameters()[1][0], 2, 1e-3);
  EXPECT_NEAR(trainer.parameters()[1][1], -1.5, 1e-3);
  EXPECT_NEAR(trainer.micro_batch().scores[7], batch.targets[7], 1e-3);
}

TEST(LinearRegressionTest, RefusesBatchesAndDataOfClasses) {
  const auto model = MakeModel("linear_regression {}", {.sparse = true, .target = TargetScale()});
  EXPECT_THAT(model->Load(Sparse(2), *model->NewMicroBatch()).message(),
              HasSubstr("0 numbers to predict"));
  EXPECT_THAT(CreateError("linear_regression {}", {.sparse = true, .classes = 2}),
              AllOf(HasSubstr("model.linear_regression predicts a number"), HasSubstr("classes")));
  EXPECT_THAT(CreateError("linear_regression {}", {.vocabulary = 256, .target = TargetScale()}),
              HasSubstr("model.linear_regression reads sparse or dense features"));
}

}  // namespace
}  // namespace muster
