#include "worker/models/model_check_for_testing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/models/create_model.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

template <typename Spec>
Spec Parse(const std::string& text) {
  Spec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

void CheckDescription(const ModelDescription& description) {
  EXPECT_GE(description.units, 1);
  EXPECT_FALSE(description.default_metric.empty());
  std::set<std::string> names;
  std::set<uint32_t> units;
  uint32_t last_unit = 0;
  for (const TensorSpec& tensor : description.tensors) {
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    EXPECT_GT(tensor.elements(), 0) << tensor.name;
    EXPECT_LT(tensor.unit, description.units) << tensor.name;
    EXPECT_GE(tensor.unit, last_unit) << tensor.name << ": tensors are in order of unit";
    // Not of biases, nor of norms' gains.
    EXPECT_EQ(tensor.weight_decay, tensor.shape.size() > 1) << tensor.name;
    last_unit = tensor.unit;
    units.insert(tensor.unit);
  }
  EXPECT_EQ(units.size(), description.units) << "every unit has a tensor";
  for (const SparseTableSpec& table : description.sparse_tables) {
    EXPECT_TRUE(names.insert(table.name).second) << table.name;
    EXPECT_GT(table.dim, 0) << table.name;
  }
}

GradientCheckOptions Options(const std::string& what) {
  return {.what = what, .step = 1.0 / 512, .tolerance = 5e-3, .samples = 60, .kinks = 0.1};
}

// Small enough that no example is certain: a saturated loss has no slope to check. In place, as the
// trainer's spans point there.
void SetRandomParameters(LocalTrainer& trainer) {
  for (size_t t = 0; t < trainer.parameters().size(); ++t) {
    const std::vector<float> values = RandomValues(trainer.parameters()[t].size(), 10 + t);
    for (size_t i = 0; i < values.size(); ++i) trainer.parameters()[t][i] = 0.4f * values[i];
  }
}

}  // namespace

std::unique_ptr<const Model> MakeModel(const std::string& model_spec, const DatasetInfo& data) {
  return MakeModel(model_spec, "", data);
}

std::unique_ptr<const Model> MakeModel(const std::string& model_spec, const std::string& compute,
                                       const DatasetInfo& data) {
  auto model = CreateModel(Parse<v1::ModelSpec>(model_spec), Parse<v1::ComputeSpec>(compute), data);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

std::string CreateError(const std::string& model_spec, const DatasetInfo& data) {
  const auto model = CreateModel(Parse<v1::ModelSpec>(model_spec), v1::ComputeSpec(), data);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << model.status();
  return std::string(model.status().message());
}

void CheckModel(const Model& model, const Batch& batch) {
  CheckDescription(model.description());
  LocalTrainer trainer(model, 1);
  SetRandomParameters(trainer);
  ASSERT_TRUE(trainer.Load(batch).ok());
  MicroBatch& micro_batch = trainer.micro_batch();
  for (size_t table = 0; table < micro_batch.sparse.size(); ++table) {
    SparseRows& sparse = micro_batch.sparse[table];
    EXPECT_EQ(sparse.rows.size(),
              sparse.keys.size() * model.description().sparse_tables[table].dim);
    sparse.rows = RandomValues(sparse.rows.size(), 90 + table);
    for (float& value : sparse.rows) value *= 0.5f;
  }
  const auto value = [&] {
    EXPECT_TRUE(trainer.Run().ok());
    return micro_batch.loss_sum + micro_batch.router_sums.auxiliary + micro_batch.router_sums.z;
  };
  const double loss = value();
  const std::vector<std::vector<float>> written = trainer.gradients();
  const std::vector<SparseRows> rows = micro_batch.sparse;
  EXPECT_EQ(value(), loss) << "forward after backward";
  for (size_t t = 0; t < trainer.parameters().size(); ++t) {
    if (model.description().tensors[t].sign_rate > 0) continue;  // It is no gradient of the loss.
    ExpectGradient(Options(model.description().tensors[t].name), value,
                   absl::MakeSpan(trainer.parameters()[t]), written[t]);
  }
  for (size_t table = 0; table < micro_batch.sparse.size(); ++table) {
    SparseRows& sparse = micro_batch.sparse[table];
    ExpectGradient(Options(model.description().sparse_tables[table].name), value,
                   absl::MakeSpan(sparse.rows), rows[table].gradients);
  }
  value();
  ASSERT_TRUE(trainer.RunAgain().ok());
  for (size_t t = 0; t < written.size(); ++t) {
    for (size_t i = 0; i < written[t].size(); ++i) {
      EXPECT_NEAR(trainer.gradients()[t][i], 2 * written[t][i],
                  1e-5 * (1 + std::abs(written[t][i])))
          << model.description().tensors[t].name << ", element " << i << ", added to its own";
    }
  }

  CheckNoExamples(model, batch);
}

void CheckProbabilities(const Model& model, const Batch& batch, int64_t classes) {
  LocalTrainer trainer(model, 1);
  SetRandomParameters(trainer);
  MicroBatch& pass = trainer.micro_batch();
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_THAT(pass.probabilities, IsEmpty()) << "not wanted";
  EXPECT_THAT(pass.predicted, IsEmpty());
  const double loss = pass.loss_sum;
  const std::vector<float> scores = pass.scores;

  pass.wants_probabilities = true;
  ASSERT_TRUE(trainer.Evaluate(batch).ok());
  EXPECT_EQ(pass.loss_sum, loss);
  EXPECT_EQ(pass.scores, scores);
  ASSERT_EQ(pass.probabilities.size(), batch.examples * classes);
  ASSERT_EQ(pass.predicted.size(), batch.examples);
  int64_t correct = 0;
  for (int64_t i = 0; i < batch.examples; ++i) {
    const auto first = pass.probabilities.begin() + i * classes;
    EXPECT_NEAR(std::accumulate(first, first + classes, 0.0), 1, 1e-5);
    EXPECT_EQ(std::max_element(first, first + classes) - first, pass.predicted[i]);
    correct += pass.predicted[i] == batch.labels[i];
    if (classes == 2) EXPECT_EQ(first[1], scores[i]);
  }
  EXPECT_EQ(correct, pass.correct);

  Batch none;
  none.Clear();
  ASSERT_TRUE(trainer.Evaluate(none).ok());
  EXPECT_THAT(pass.probabilities, IsEmpty());
  EXPECT_THAT(pass.predicted, IsEmpty());
}

void CheckNoExamples(const Model& model, const Batch& batch) {
  LocalTrainer trainer(model, 1);
  MicroBatch& micro_batch = trainer.micro_batch();
  const auto expect_nothing = [&] {
    EXPECT_EQ(micro_batch.examples, 0);
    EXPECT_EQ(micro_batch.loss_weight, 0);
    EXPECT_EQ(micro_batch.loss_sum, 0);
    EXPECT_EQ(micro_batch.correct, 0);
    EXPECT_THAT(micro_batch.scores, IsEmpty());
    EXPECT_THAT(micro_batch.probabilities, IsEmpty());
    EXPECT_THAT(micro_batch.labels, IsEmpty());
    EXPECT_THAT(micro_batch.targets, IsEmpty());
    for (const SparseRows& sparse : micro_batch.sparse) {
      EXPECT_THAT(sparse.keys, IsEmpty());
      EXPECT_THAT(sparse.gradients, IsEmpty());
    }
  };
  // A pass over no examples that left out something would show what the batch left.
  ASSERT_TRUE(trainer.Load(batch).ok());
  ASSERT_TRUE(trainer.Run().ok());
  EXPECT_GT(micro_batch.loss_sum, 0);
  const std::vector<std::vector<float>> of_batch = trainer.gradients();
  const std::vector<std::vector<float>> parameters = trainer.parameters();
  const auto set_parameters = [&](const std::vector<std::vector<float>>& values) {
    // The values are changed in place, because the trainer's spans point there.
    for (size_t t = 0; t < values.size(); ++t) {
      std::copy(values[t].begin(), values[t].end(), trainer.parameters()[t].begin());
    }
  };
  std::vector<std::vector<float>> not_a_number = parameters;
  for (std::vector<float>& values : not_a_number) std::fill(values.begin(), values.end(), NAN);
  set_parameters(not_a_number);

  Batch none;
  none.Clear();
  for (const bool split_backward : {false, true}) {
    micro_batch.split_backward = split_backward;
    ASSERT_TRUE(trainer.Load(none).ok());
    ASSERT_TRUE(trainer.Run().ok());
    expect_nothing();
    for (const std::vector<float>& gradient : trainer.gradients()) {
      EXPECT_THAT(gradient, Each(0.0f)) << "written";
    }
  }
  micro_batch.split_backward = false;
  ASSERT_TRUE(trainer.Evaluate(none).ok());
  expect_nothing();

  set_parameters(parameters);
  ASSERT_TRUE(trainer.Load(batch).ok());
  ASSERT_TRUE(trainer.Run().ok());
  EXPECT_EQ(trainer.gradients(), of_batch);
  set_parameters(not_a_number);
  ASSERT_TRUE(trainer.Load(none).ok());
  ASSERT_TRUE(trainer.RunAgain().ok());
  expect_nothing();
  EXPECT_EQ(trainer.gradients(), of_batch) << "nothing is added";
}

}  // namespace muster
