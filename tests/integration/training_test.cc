// Jobs of every kind train end to end on a cluster of real processes.

#include <cmath>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/jobs.h"
#include "tests/harness/safetensors_reader.h"
#include "tests/harness/shared_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class TrainingTest : public SharedClusterTest {
 protected:
  // What `muster evaluate JOB --data PATH` asks for.
  double AccuracyOn(const std::string& path, const v1::JobStatus& job) {
    v1::JobSpec spec = job.spec();
    spec.set_initial_weights(job.job_id());
    spec.clear_stop();
    spec.mutable_stop()->set_evaluate_only(true);
    spec.clear_checkpoint();
    spec.mutable_data()->set_holdout(1);
    spec.mutable_data()->mutable_csv()->set_path(path);
    const v1::JobStatus evaluation = Train(spec);
    EXPECT_EQ(evaluation.evaluations_size(), 1);
    if (evaluation.evaluations_size() != 1) return -1;
    return evaluation.evaluations(0).value();
  }
};

// A file of one class or both, told apart by a column whose values lie around 20 or 80, without a
// header; all values shifted.
std::string WriteRows(const std::string& name, bool ham, bool spam, int shift) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream file(path);
  for (int i = 0; i < 200; ++i) {
    if (i % 2 == 0 && ham) file << 20 + i % 7 + shift << ";ham\n";
    if (i % 2 == 1 && spam) file << 80 + i % 7 + shift << ";spam\n";
  }
  return path;
}

TEST_F(TrainingTest, SmallClassifierLearnsAndReportsEverything) {
  const v1::JobStatus job = Train(SmallJob());
  EXPECT_EQ(job.progress().step(), 100u);
  EXPECT_EQ(job.progress().total_steps(), 100u);
  EXPECT_GT(job.progress().bytes_pushed_per_step(), 0);
  EXPECT_GT(job.progress().bytes_pulled_per_step(), 0);
  EXPECT_EQ(job.progress().max_staleness(), 0u);
  ASSERT_GE(job.evaluations_size(), 1);
  const v1::EvaluationResult& last = *job.evaluations().rbegin();
  EXPECT_EQ(last.metric(), "accuracy");
  EXPECT_EQ(last.examples(), 400u);
  EXPECT_GT(last.value(), 0.9);
  EXPECT_EQ(job.checkpoint_clock(), 100u);

  const auto tensors = cluster_->Export(job.job_id());
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  size_t elements = 0;
  for (const auto& [name, tensor] : *tensors) {
    for (float value : tensor.Floats()) ASSERT_TRUE(std::isfinite(value)) << name;
    elements += tensor.Floats().size();
  }
  EXPECT_EQ(elements, 20u * 32 + 32 + 32 * 4 + 4);
}

TEST_F(TrainingTest, StalenessStaysInItsBound) {
  for (int64_t bound : {1, 4}) {
    v1::JobSpec spec = SmallJob();
    spec.mutable_update()->set_deterministic(false);
    spec.mutable_update()->set_staleness_bound(bound);
    const v1::JobStatus job = Train(spec);
    EXPECT_LE(job.progress().max_staleness(), static_cast<uint64_t>(bound));
    ASSERT_GE(job.evaluations_size(), 1);
    EXPECT_GT(job.evaluations().rbegin()->value(), 0.9);
  }
}

TEST_F(TrainingTest, AsynchronousJobTrains) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_deterministic(false);
  spec.mutable_update()->set_unlimited_staleness(true);
  const v1::JobStatus job = Train(spec);
  ASSERT_GE(job.evaluations_size(), 1);
  EXPECT_GT(job.evaluations().rbegin()->value(), 0.9);
}

// What is learned of the data goes with the weights. By its own mean each file would have as many
// values above it as below.
TEST_F(TrainingTest, RowsOfTheTrainingFilesMeanTheSameInAnyFile) {
  WriteRows("rows-1.csv", true, false, 0);
  WriteRows("rows-2.csv", false, true, 0);
  const std::string only_spam = WriteRows("only_spam.csv", false, true, 0);
  const std::string shifted = WriteRows("shifted.csv", true, true, 1000);
  for (const v1::UpdateSpec::Road road :
       {v1::UpdateSpec::PARAMETER_SERVER, v1::UpdateSpec::ALL_REDUCE}) {
    v1::JobSpec spec = SmallJob();
    spec.mutable_model()->mutable_logistic_regression();
    v1::CsvData& csv = *spec.mutable_data()->mutable_csv();
    csv.set_path(::testing::TempDir() + "/rows-*.csv");
    csv.set_no_header(true);
    csv.set_separator(";");
    csv.set_label("2");
    csv.add_numeric("1");
    spec.mutable_data()->set_holdout(0);
    spec.mutable_update()->set_dense(road);
    spec.mutable_update()->set_sparse(road);
    spec.clear_evaluation();
    const v1::JobStatus job = Train(spec);
    EXPECT_EQ(AccuracyOn(only_spam, job), 1);
    EXPECT_EQ(AccuracyOn(shifted, job), 0.5);
    // A job that starts from the weights keeps their scale, and hands it on.
    spec.set_initial_weights(job.job_id());
    csv.set_path(shifted);
    spec.mutable_optimizer()->set_learning_rate(1e-9f);
    const v1::JobStatus tuned = Train(spec);
    EXPECT_EQ(AccuracyOn(only_spam, tuned), 1);
    EXPECT_EQ(AccuracyOn(shifted, tuned), 0.5);
  }
}

// Prices of two kinds, by the size of what is sold; all of them shifted.
std::string WritePrices(const std::string& name, double shift) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream file(path);
  file << "size,kind,price\n";
  for (int i = 0; i < 400; ++i) {
    const double price = 500 + 3 * (i % 20) + (i % 3 == 0 ? 40 : 0) + (i % 2 == 0 ? 2 : -2);
    file << i % 20 << "," << (i % 3 == 0 ? "new" : "used") << "," << price + shift << "\n";
  }
  return path;
}

// What is learned of the targets goes with the weights, whatever data come later.
TEST_F(TrainingTest, NumbersAreMeasuredInTheirOwnUnitAndKeepTheirScale) {
  const std::string prices = WritePrices("prices.csv", 0);
  const std::string dearer = WritePrices("dearer.csv", 1000);
  for (const char* model :
       {"linear_regression {}", "deep_fm { embedding_dim: 4 hidden: 8 regression {} }"}) {
    SCOPED_TRACE(model);
    v1::JobSpec spec = SmallJob();
    *spec.mutable_model() = ParseJobOrDie(absl::StrCat("model { ", model, " }")).model();
    v1::CsvData& csv = *spec.mutable_data()->mutable_csv();
    csv.set_path(prices);
    csv.set_label("price");
    csv.add_numeric("size");
    csv.add_categorical("kind");
    spec.mutable_data()->set_holdout(0.2);
    spec.mutable_optimizer()->set_learning_rate(0.1f);
    spec.mutable_stop()->set_steps(600);
    spec.clear_evaluation();
    const v1::JobStatus job = Train(spec);
    ASSERT_EQ(job.evaluations_size(), 1);
    const v1::EvaluationResult& own = job.evaluations(0);
    EXPECT_EQ(own.metric(), "rmse");
    EXPECT_EQ(own.examples(), 80u);
    // The noise is 2; the prices' deviation is about 26.
    EXPECT_GT(own.value(), 1.9);
    EXPECT_LT(own.value(), 2.5);

    // Of all rows, and of others. The error of prices that are 1000 higher is about 1000.
    spec.set_initial_weights(job.job_id());
    spec.clear_stop();
    spec.mutable_stop()->set_evaluate_only(true);
    spec.mutable_data()->set_holdout(1);
    spec.mutable_evaluation()->set_metric("mae");
    csv.set_path(dearer);
    EXPECT_NEAR(Train(spec).evaluations(0).value(), 1000, 3);
    spec.mutable_evaluation()->set_metric("r2");
    EXPECT_LT(Train(spec).evaluations(0).value(), -1000);
    csv.set_path(prices);
    EXPECT_GT(Train(spec).evaluations(0).value(), 0.98);
    spec.mutable_evaluation()->set_metric("");

    // Tuned a little on the others, the weights mean what they meant.
    csv.set_path(dearer);
    spec.mutable_data()->set_holdout(0.2);
    spec.clear_stop();
    spec.mutable_stop()->set_steps(2);
    spec.mutable_optimizer()->set_learning_rate(1e-9f);
    EXPECT_NEAR(Train(spec).evaluations(0).value(), 1000, 3);

    // A job that goes on from the first one has its scale.
    v1::JobSpec more = job.spec();
    more.set_resume_from(job.job_id());
    more.mutable_stop()->set_steps(602);
    more.mutable_optimizer()->set_learning_rate(1e-9f);
    const v1::JobStatus resumed = Train(more);
    ASSERT_GE(resumed.evaluations_size(), 1);
    EXPECT_NEAR(resumed.evaluations().rbegin()->value(), own.value(), 1e-3);
  }
}

TEST_F(TrainingTest, SparseClickModelsNearTheBestAuc) {
  for (const char* model :
       {"logistic_regression { classes: 2 }", "deep_fm { embedding_dim: 4 hidden: 16 }"}) {
    const v1::JobStatus job =
        Train(ParseJobOrDie(absl::StrCat("name: 'clicks' model { ", model, " } ", R"pb(
          data {
            synthetic_clicks { examples: 20000 fields: 4 cardinality: 50 numeric: 2 seed: 5 }
            holdout: 0.2
          }
          optimizer { name: "adagrad" learning_rate: 0.05 }
          update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER durability: CHECKPOINT }
          workers: 2
          batch_size: 128
          stop { epochs: 3 }
          evaluation { metric: "auc" }
          seed: 1
        )pb")));
    ASSERT_GE(job.evaluations_size(), 1) << model;
    EXPECT_EQ(job.evaluations().rbegin()->metric(), "auc") << model;
    EXPECT_GT(job.evaluations().rbegin()->value(), 0.6) << model;
  }
}

TEST_F(TrainingTest, DeterministicJobsRepeatBitForBitOnAnyNumberOfServers) {
  ExportedTensors first;
  for (int servers : {1, 2, 2}) {
    v1::JobSpec spec = SmallJob();
    spec.set_servers(servers);
    const v1::JobStatus job = Train(spec);
    const auto tensors = cluster_->Export(job.job_id());
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    ASSERT_FALSE(tensors->empty());
    if (first.empty()) first = *tensors;
    EXPECT_TRUE(*tensors == first) << "other weights on " << servers << " servers";
  }
}

TEST_F(TrainingTest, JobStartsFromAnothersWeights) {
  const v1::JobStatus first = Train(SmallJob());
  v1::JobSpec next = SmallJob();
  next.set_initial_weights(first.job_id());
  next.mutable_stop()->set_steps(1);
  next.mutable_optimizer()->set_learning_rate(1e-6);
  const v1::JobStatus second = Train(next);
  ASSERT_GE(second.evaluations_size(), 1);
  EXPECT_NEAR(second.evaluations().rbegin()->value(), first.evaluations().rbegin()->value(), 0.01);

  v1::JobSpec lost = SmallJob();
  lost.set_initial_weights("no-such-job");
  const auto refused = cluster_->Submit(lost);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no-such-job"));
}

TEST_F(TrainingTest, SeveralJobsShareTheCluster) {
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) {
    v1::JobSpec spec = SmallJob();
    spec.set_seed(i);
    const auto id = cluster_->Submit(spec);
    ASSERT_TRUE(id.ok()) << id.status();
    ids.push_back(*id);
  }
  for (const std::string& id : ids) {
    const auto status = cluster_->AwaitEnd(id);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(status->state(), v1::SUCCEEDED) << status->message();
  }
}

TEST_F(TrainingTest, JobTooBigForTheClusterWaitsOrIsRefusedWithNumbers) {
  v1::JobSpec spec = SmallJob();
  spec.set_workers(64);
  spec.set_batch_size(64);
  const auto refused = cluster_->Submit(spec);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("64"));
}

TEST_F(TrainingTest, CancelKeepsTheLastCheckpointAndIsSafeToRepeat) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_stop()->set_steps(10000000);
  spec.mutable_checkpoint()->set_every_steps(20);
  const auto id = cluster_->Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = cluster_->Await(
      *id, [](const v1::JobStatus& status) { return status.checkpoint_clock() >= 20; });
  ASSERT_TRUE(running.ok()) << running.status();
  v1::JobStatus status;
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_TRUE(cluster_->jobs().Cancel(*id, "test", status).ok());
    EXPECT_EQ(status.state(), v1::CANCELLED);
  }
  EXPECT_TRUE(cluster_->Export(*id).ok());
  // Its slots are free for others.
  Train(SmallJob());
  EXPECT_TRUE(cluster_->jobs().Delete(*id).ok());
  EXPECT_EQ(cluster_->Export(*id).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
