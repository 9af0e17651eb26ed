// Models that predict a number train on either road as in one process, and come as near to their
// targets as the targets' noise allows.
#include <cmath>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/philox.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/data_preparation.pb.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"
#include "tests/harness/jobs.h"
#include "worker/runtime/training/prepared_job.h"

namespace muster {
namespace {

constexpr double kNoise = 0.5;

// Writes stars that users give films: x, what is usual for the user and for the film, what they
// have in common, and noise of deviation kNoise. z has nothing to do with them.
std::string WriteRatings(const TempFolder& folder, int rows) {
  const std::string path = folder.path() + "/ratings.csv";
  std::ofstream file(path);
  file << "user,film,x,z,stars\n";
  const Philox random(3, "regression_training_test", "ratings");
  const auto normal = [&random](uint64_t kind, uint64_t of) { return random.Normal(of, kind); };
  for (int i = 0; i < rows; ++i) {
    const uint64_t user = random.Below(40, i, 1);
    const uint64_t film = random.Below(30, i, 2);
    const float x = random.Uniform(i, 3);
    const double stars = 3 + x + 0.6 * normal(10, user) + 0.6 * normal(11, film) +
                         0.5 * normal(12, user) * normal(13, film) + kNoise * normal(14, i);
    file << "u" << user << ",f" << film << "," << x << "," << random.Uniform(i, 4) << "," << stars
         << "\n";
  }
  return path;
}

// A tiny job of this model on ratings, in text form.
v1::JobSpec RatingsJob(const std::string& model, const std::string& path) {
  v1::JobSpec spec = TinyJob("deep_fm", "sgd", "");
  *spec.mutable_model() = ParseJobOrDie(absl::StrCat("model { ", model, " }")).model();
  v1::CsvData& csv = *spec.mutable_data()->mutable_csv();
  csv.set_path(path);
  csv.set_label("stars");
  for (const char* column : {"x", "z"}) csv.add_numeric(column);
  if (spec.model().has_mlp()) return spec;
  for (const char* column : {"user", "film"}) csv.add_categorical(column);
  return spec;
}

class RegressionTrainingTest : public ::testing::Test {
 protected:
  const TempFolder folder_;
};

TEST_F(RegressionTrainingTest, EitherRoadEqualsOneProcess) {
  const std::string path = WriteRatings(folder_, 300);
  for (const char* model : {"linear_regression { loss: ABSOLUTE }", "linear_regression {}",
                            "mlp { hidden: [12, 8] regression { loss: HUBER huber_delta: 0.5 } }",
                            "deep_fm { embedding_dim: 4 hidden: 8 regression { loss: HUBER } }",
                            "deep_fm { embedding_dim: 4 hidden: 8 regression {} }"}) {
    SCOPED_TRACE(model);
    v1::JobSpec spec = RatingsJob(model, path);
    spec.mutable_data()->set_holdout(0.2);
    spec.mutable_evaluation()->set_every_steps(20);
    LossCurve curve;
    RunOptions options;
    const TrainedValues expected = TrainLocally(spec, &curve);
    options.keys = expected.keys;
    ASSERT_EQ(curve.size(), 3);
    const RunResult on_servers = TrainOnServers(spec, options);
    const RunResult by_all_reduce = TrainByAllReduce(ByAllReduceInSmallBuckets(spec), options);
    for (const RunResult* run : {&on_servers, &by_all_reduce}) {
      // Targets have mean 0, so biases are near 0, and rounding is a larger part of them.
      ExpectClose(run->trained[0], expected, 1e-4);
      EXPECT_EQ(run->evaluated, 60);
      for (const auto& [clock, loss] : curve) {
        EXPECT_NEAR(run->curve.at(clock), loss, 1e-5 * loss) << clock;
      }
    }
    EXPECT_LT(curve.rbegin()->second, curve.begin()->second) << "it learns something";
  }
}

TEST_F(RegressionTrainingTest, TensorRanksAndStagesOfAPerceptronEqualOneProcess) {
  v1::JobSpec spec =
      RatingsJob("mlp { hidden: [12, 8] regression {} }", WriteRatings(folder_, 300));
  spec.mutable_update()->set_deterministic(true);
  spec.set_micro_batches(2);
  const TrainedValues expected = TrainLocally(spec);
  ExpectClose(ValuesByAllReduce(OnMesh(ByAllReduce(spec), 2, 2)), expected, 1e-5);
  ExpectClose(ValuesOnServers(OnMesh(spec, 2, 1)), expected, 1e-5);
  ExpectClose(ValuesByAllReduce(
                  InPipeline(OnMesh(ByAllReduce(spec), 1, 1), 2, v1::ParallelismSpec::ONE_F_ONE_B)),
              expected, 1e-5);
}

// The preparation of a job's data, the target's last among its columns.
v1::CsvPreparation PreparationOf(const v1::JobSpec& spec) {
  v1::DataPreparation preparation;
  EXPECT_TRUE(preparation.ParseFromString(PrepareJob(spec).value().dataset->info().preparation));
  return preparation.csv();
}

TEST_F(RegressionTrainingTest, DeepFmComesNearTheNoiseOfRatings) {
  v1::JobSpec spec = RatingsJob("deep_fm { embedding_dim: 4 hidden: 8 regression {} }",
                                WriteRatings(folder_, 12000));
  spec.mutable_optimizer()->set_name("adagrad");
  spec.mutable_optimizer()->set_learning_rate(0.05f);
  spec.mutable_data()->set_holdout(0.2);
  spec.set_batch_size(128);
  spec.mutable_stop()->set_steps(1200);
  LossCurve curve;
  TrainLocally(spec, &curve);
  // The loss is half the mean squared error of normalised targets.
  const double deviation = PreparationOf(spec).numeric().rbegin()->deviation();
  const double rmse = std::sqrt(2 * curve.rbegin()->second) * deviation;
  std::cout << "rmse " << rmse << ", noise " << kNoise << ", deviation " << deviation << std::endl;
  EXPECT_GT(deviation, 2 * kNoise) << "there is something to learn";
  EXPECT_LE(rmse, 1.05 * kNoise);
}

TEST_F(RegressionTrainingTest, LinearRegressionRecoversCoefficientsByEveryLoss) {
  // price = 1000 + 30 a - 2 b + noise; a has a larger scale than b.
  const std::string path = folder_.path() + "/prices.csv";
  std::ofstream file(path);
  file << "a,price,b\n";
  const Philox random(4, "regression_training_test", "prices");
  for (int i = 0; i < 2000; ++i) {
    const double a = 100 * random.Uniform(i, 0);
    const double b = 1 + random.Uniform(i, 1);
    file << a << "," << 1000 + 30 * a - 2 * b + 0.1 * random.Normal(i, 2) << "," << b << "\n";
  }
  file.close();
  for (const char* loss : {"SQUARED", "ABSOLUTE", "HUBER"}) {
    SCOPED_TRACE(loss);
    v1::JobSpec spec = RatingsJob(absl::StrCat("linear_regression { loss: ", loss, " }"), path);
    v1::CsvData& csv = *spec.mutable_data()->mutable_csv();
    csv.set_label("price");
    csv.clear_categorical();
    csv.set_numeric(0, "a");
    csv.set_numeric(1, "b");
    spec.mutable_optimizer()->set_learning_rate(0.3f);
    spec.mutable_schedule()->set_name("linear");
    spec.set_batch_size(100);
    spec.mutable_stop()->set_steps(600);
    const TrainedValues trained = TrainLocally(spec);
    const v1::CsvPreparation prepared = PreparationOf(spec);
    ASSERT_EQ(prepared.numeric_size(), 3);
    EXPECT_EQ(prepared.numeric(2).name(), "price");
    // In the columns' own units.
    std::vector<double> weights;
    double intercept =
        prepared.numeric(2).mean() + trained.values.at("bias")[0] * prepared.numeric(2).deviation();
    for (int column = 0; column < 2; ++column) {
      weights.push_back(trained.values.at("dense.weight")[column] *
                        prepared.numeric(2).deviation() / prepared.numeric(column).deviation());
      intercept -= weights.back() * prepared.numeric(column).mean();
    }
    EXPECT_NEAR(weights[0], 30, 0.01);
    EXPECT_NEAR(weights[1], -2, 0.5);
    EXPECT_NEAR(intercept, 1000, 1);
  }
}

}  // namespace
}  // namespace muster
