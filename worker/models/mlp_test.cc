#include "worker/models/mlp.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/models/model_check_for_testing.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DatasetInfo RowsData(int64_t features, int64_t classes) {
  return {.examples = 100, .dense_features = features, .classes = classes};
}

// Points in the plane whose class is the parity of their quadrant: no linear classifier does better
// than half.
Batch Quadrants(int64_t examples) {
  Batch batch;
  batch.Clear();
  batch.examples = examples;
  batch.dense = RandomValues(2 * examples, 3);
  for (int64_t i = 0; i < examples; ++i) {
    batch.labels.push_back((batch.dense[2 * i] > 0) != (batch.dense[2 * i + 1] > 0));
  }
  return batch;
}

TEST(MlpTest, Gradients) {
  Batch batch;
  batch.Clear();
  batch.examples = 6;
  batch.dense = RandomValues(6 * 5, 1);
  batch.labels = {0, 1, 2, 3, 3, 0};
  CheckModel(*MakeModel("mlp { hidden: 7 hidden: 6 classes: 4 }", RowsData(5, 4)), batch);
  CheckModel(*MakeModel("mlp { classes: 4 }", RowsData(5, 4)), batch);
}

TEST(MlpTest, Probabilities) {
  CheckProbabilities(*MakeModel("mlp { hidden: 8 classes: 2 }", RowsData(2, 2)), Quadrants(50), 2);
  CheckProbabilities(*MakeModel("mlp { hidden: 8 classes: 3 }", RowsData(2, 3)), Quadrants(50), 3);
}

TEST(MlpTest, OneUnitPerLinearLayer) {
  const auto model = MakeModel("mlp { hidden: 256 classes: 10 }", RowsData(784, 10));
  EXPECT_EQ(model->description().units, 2);
  ASSERT_EQ(model->description().tensors.size(), 4);
  EXPECT_EQ(model->description().tensors[2].name, "output.weight");
  EXPECT_EQ(model->description().tensors[2].unit, 1);
  EXPECT_EQ(model->description().default_metric, "accuracy");
  EXPECT_EQ(model->description().classes, 10);
}

TEST(MlpTest, LearnsWhatNoLinearModelCan) {
  const auto model = MakeModel("mlp { hidden: 16 classes: 2 }", RowsData(2, 2));
  const Batch batch = Quadrants(200);
  LocalTrainer trainer(*model, 7);
  for (int step = 0; step < 600; ++step) ASSERT_TRUE(trainer.Step(batch, 0.5).ok());
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_GE(trainer.micro_batch().correct, 196);
  EXPECT_LT(trainer.mean_loss(), 0.15);
}

TEST(MlpTest, TwoClassesHaveScores) {
  const auto model = MakeModel("mlp { hidden: 8 classes: 2 }", RowsData(2, 2));
  LocalTrainer trainer(*model, 7);
  const Batch batch = Quadrants(50);
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  const MicroBatch& micro_batch = trainer.micro_batch();
  ASSERT_EQ(micro_batch.scores.size(), 50);
  int64_t correct = 0;
  for (int i = 0; i < 50; ++i) correct += (micro_batch.scores[i] > 0.5) == batch.labels[i];
  EXPECT_EQ(correct, micro_batch.correct);
}

TEST(MlpTest, RefusesBatchesOfOtherData) {
  const auto model = MakeModel("mlp { classes: 2 }", RowsData(3, 2));
  const auto micro_batch = model->NewMicroBatch();
  EXPECT_THAT(model->Load(Quadrants(4), *micro_batch).message(),
              AllOf(HasSubstr("4 examples"), HasSubstr("8 dense values"), HasSubstr("12")));
  Batch batch = Quadrants(3);
  batch.dense.resize(9);
  batch.labels[1] = 2;
  EXPECT_THAT(model->Load(batch, *micro_batch).message(),
              AllOf(HasSubstr("Example 1"), HasSubstr("label 2")));
}

TEST(MlpTest, NamesWhatIsWrong) {
  EXPECT_THAT(CreateError("mlp { classes: 10 }", {.sparse = true, .classes = 2}),
              AllOf(HasSubstr("model.mlp"), HasSubstr("sparse features"),
                    HasSubstr("logistic_regression")));
  EXPECT_THAT(CreateError("mlp { classes: 256 }", {.vocabulary = 256, .classes = 256}),
              AllOf(HasSubstr("text"), HasSubstr("ngram")));
  EXPECT_THAT(CreateError("mlp { hidden: 3 hidden: 0 classes: 10 }", RowsData(4, 10)),
              HasSubstr("model.mlp.hidden[1] is 0"));
  EXPECT_THAT(CreateError("mlp { hidden: 3 }", RowsData(4, 10)),
              HasSubstr("model.mlp.classes is 0; it must be from 2"));
  EXPECT_THAT(CreateError("mlp { classes: 3 }", RowsData(4, 10)),
              AllOf(HasSubstr("3 classes"), HasSubstr("set it to 10")));
}

// The product of two numbers.
Batch Products(int64_t examples) {
  Batch batch = Quadrants(examples);
  batch.labels.clear();
  for (int64_t i = 0; i < examples; ++i) {
    batch.targets.push_back(batch.dense[2 * i] * batch.dense[2 * i + 1]);
  }
  return batch;
}

DatasetInfo PlaneData() { return {.dense_features = 2, .target = TargetScale()}; }

TEST(MlpRegressionTest, Gradients) {
  const Batch batch = Products(6);
  CheckModel(*MakeModel("mlp { hidden: 7 hidden: 6 regression {} }", PlaneData()), batch);
  CheckModel(*MakeModel("mlp { hidden: 7 regression { loss: ABSOLUTE } }", PlaneData()), batch);
  CheckModel(*MakeModel("mlp { hidden: 7 regression { loss: HUBER } }", PlaneData()), batch);
  CheckModel(*MakeModel("mlp { regression { loss: HUBER huber_delta: 0.3 } }", PlaneData()), batch);
}

TEST(MlpRegressionTest, LearnsWhatNoLinearModelCan) {
  const auto model = MakeModel("mlp { hidden: 16 regression {} }", PlaneData());
  EXPECT_EQ(model->description().default_metric, "rmse");
  EXPECT_EQ(model->description().classes, 0);
  const Batch batch = Products(200);
  LocalTrainer trainer(*model, 7);
  for (int step = 0; step < 600; ++step) ASSERT_TRUE(trainer.Step(batch, 0.2).ok());
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  // Half the mean squared error; the products' variance is about 0.13.
  EXPECT_LT(trainer.mean_loss(), 0.005);
  EXPECT_EQ(trainer.micro_batch().correct, 0);
  trainer.micro_batch().wants_probabilities = true;
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_THAT(trainer.micro_batch().probabilities, IsEmpty());
}

TEST(MlpRegressionTest, NamesWhatIsWrong) {
  EXPECT_THAT(CreateError("mlp { hidden: 3 regression {} }", RowsData(2, 10)),
              HasSubstr("model.mlp.regression predicts a number, but the data have classes"));
  EXPECT_THAT(CreateError("mlp { classes: 3 regression {} }", PlaneData()),
              HasSubstr("model.mlp.classes is 3, but model.mlp.regression predicts a number"));
}

}  // namespace
}  // namespace muster
