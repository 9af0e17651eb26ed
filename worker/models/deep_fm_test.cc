#include "worker/models/deep_fm.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/models/model_check_for_testing.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kSpec[] = "deep_fm { embedding_dim: 4 hidden: 6 hidden: 5 }";

DatasetInfo ClicksData(int64_t fields, int64_t numeric) {
  return {
      .examples = 100, .dense_features = numeric, .sparse = true, .fields = fields, .classes = 2};
}

// Categorical values out of three per field.
Batch Clicks(int64_t examples, int64_t fields, int64_t numeric) {
  Batch batch;
  batch.Clear();
  batch.examples = examples;
  batch.dense = RandomValues(examples * numeric, 4);
  for (int64_t i = 0; i < examples; ++i) {
    for (int64_t f = 0; f < fields; ++f) {
      batch.keys.push_back(1000 * f + (i * (f + 2) + i / 5) % 3);
      batch.values.push_back(1);
    }
    batch.offsets.push_back(batch.keys.size());
    batch.labels.push_back(i % 2);
  }
  return batch;
}

TEST(DeepFmTest, Gradients) { CheckModel(*MakeModel(kSpec, ClicksData(3, 2)), Clicks(5, 3, 2)); }

TEST(DeepFmTest, GradientsWithoutNumericColumns) {
  CheckModel(*MakeModel(kSpec, ClicksData(4, 0)), Clicks(6, 4, 0));
}

TEST(DeepFmTest, Probabilities) {
  CheckProbabilities(*MakeModel(kSpec, ClicksData(3, 2)), Clicks(50, 3, 2), 2);
}

TEST(DeepFmTest, Description) {
  const auto model = MakeModel(kSpec, ClicksData(3, 2));
  const ModelDescription& description = model->description();
  EXPECT_EQ(description.units, 3);
  EXPECT_EQ(description.default_metric, "auc");
  EXPECT_EQ(description.classes, 2);
  ASSERT_EQ(description.sparse_tables.size(), 1);
  EXPECT_EQ(description.sparse_tables[0].dim, 5) << "first-order weight and vector";
  ASSERT_EQ(description.tensors.size(), 7);
  EXPECT_EQ(description.tensors[0].name, "numeric.weight");
  EXPECT_EQ(description.tensors[1].elements(), 6 * (3 * 4 + 2));
}

TEST(DeepFmTest, LearnsThatTwoFieldsAgree) {
  // A click where two fields have the same value: neither field alone says anything.
  Batch batch;
  batch.Clear();
  for (uint64_t a = 0; a < 4; ++a) {
    for (uint64_t b = 0; b < 4; ++b) {
      batch.keys.insert(batch.keys.end(), {a, 100 + b});
      batch.values.insert(batch.values.end(), {1, 1});
      batch.offsets.push_back(batch.keys.size());
      batch.labels.push_back(a == b);
    }
  }
  batch.examples = 16;
  const auto model = MakeModel("deep_fm { embedding_dim: 8 hidden: 16 }", ClicksData(2, 0));
  LocalTrainer trainer(*model, 5);
  for (int step = 0; step < 1500; ++step) ASSERT_TRUE(trainer.Step(batch, 0.5).ok());
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_EQ(trainer.micro_batch().correct, 16);
  EXPECT_LT(trainer.mean_loss(), 0.1);
  EXPECT_GT(trainer.micro_batch().scores[0], 0.9);
  EXPECT_LT(trainer.micro_batch().scores[1], 0.1);
}

DatasetInfo RatingsData(int64_t fields, int64_t numeric) {
  DatasetInfo data = ClicksData(fields, numeric);
  data.classes = 0;
  data.target = TargetScale();
  return data;
}

Batch Ratings(int64_t examples, int64_t fields, int64_t numeric) {
  Batch batch = Clicks(examples, fields, numeric);
  batch.labels.clear();
  batch.targets = RandomValues(examples, 8);
  return batch;
}

TEST(DeepFmTest, GradientsOfRegression) {
  for (const std::string loss : {"", "loss: ABSOLUTE", "loss: HUBER huber_delta: 0.5"}) {
    const std::string spec =
        "deep_fm { embedding_dim: 4 hidden: 6 hidden: 5 regression { " + loss + " } }";
    CheckModel(*MakeModel(spec, RatingsData(3, 2)), Ratings(5, 3, 2));
    CheckModel(*MakeModel(spec, RatingsData(4, 0)), Ratings(6, 4, 0));
  }
}

TEST(DeepFmTest, RegressionOfClassesAndClassesOfNumbersAreRefused) {
  const auto model =
      MakeModel("deep_fm { embedding_dim: 4 hidden: 6 regression {} }", RatingsData(3, 2));
  EXPECT_EQ(model->description().default_metric, "rmse");
  EXPECT_THAT(model->Load(Clicks(4, 3, 2), *model->NewMicroBatch()).message(),
              HasSubstr("0 numbers to predict"));
  EXPECT_THAT(CreateError("deep_fm { embedding_dim: 4 hidden: 6 regression {} }", ClicksData(3, 2)),
              HasSubstr("model.deep_fm.regression predicts a number"));
}

TEST(DeepFmTest, RefusesBatchesOfOtherData) {
  const auto model = MakeModel(kSpec, ClicksData(3, 2));
  const auto micro_batch = model->NewMicroBatch();
  EXPECT_THAT(model->Load(Clicks(4, 2, 2), *micro_batch).message(),
              AllOf(HasSubstr("Example 0"), HasSubstr("2 categorical features, not 3")));
  EXPECT_THAT(model->Load(Clicks(4, 3, 1), *micro_batch).message(),
              HasSubstr("4 dense values, not 8"));
}

TEST(DeepFmTest, NamesWhatIsWrong) {
  EXPECT_THAT(CreateError(kSpec, {.sparse = true, .classes = 2}),
              AllOf(HasSubstr("categorical fields"), HasSubstr("logistic_regression")));
  EXPECT_THAT(CreateError(kSpec, {.dense_features = 784, .classes = 10}),
              AllOf(HasSubstr("784 dense features"), HasSubstr("mlp")));
  EXPECT_THAT(CreateError("deep_fm { embedding_dim: 4 }", ClicksData(3, 2)),
              HasSubstr("model.deep_fm.hidden is empty"));
  EXPECT_THAT(CreateError("deep_fm { hidden: 4 }", ClicksData(3, 2)),
              HasSubstr("model.deep_fm.embedding_dim is 0"));
  DatasetInfo data = ClicksData(3, 2);
  data.classes = 5;
  EXPECT_THAT(CreateError(kSpec, data), AllOf(HasSubstr("have 5"), HasSubstr("two classes")));
}

}  // namespace
}  // namespace muster
