// Jobs learn on real data, to stated figures: MNIST digits, Shakespeare's plays, a sample of
// Criteo's clicks.

#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/eval/auc.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"
#include "worker/data/batch.h"
#include "worker/data/datasets/synthetic_clicks.h"

namespace muster {
namespace {

class LearningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (SharedData().empty()) {
      GTEST_SKIP() << "the real data sets are not at hand: MUSTER_SHARED_DATA names no folder";
    }
    auto cluster = ProcessCluster::Start({});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }

  v1::JobStatus Train(const v1::JobSpec& spec) {
    const auto job_id = cluster_->Submit(spec);
    EXPECT_TRUE(job_id.ok()) << job_id.status();
    if (!job_id.ok()) return {};
    const auto status = cluster_->AwaitEnd(*job_id);
    EXPECT_TRUE(status.ok()) << status.status();
    if (!status.ok()) return {};
    EXPECT_EQ(status->state(), v1::SUCCEEDED) << status->message() << "\n"
                                              << cluster_->Diagnose(*job_id);
    std::cout << spec.name() << ": " << status->progress().training_seconds() << " s, "
              << status->progress().examples_per_second() << " examples/s";
    for (const auto& evaluation : status->evaluations()) {
      std::cout << ", " << evaluation.metric() << " " << evaluation.value();
    }
    std::cout << std::endl;
    return *status;
  }

  std::unique_ptr<ProcessCluster> cluster_;
};

// The learning rate falls to a tenth, so that accuracies vary by less than what a staleness may
// cost.
TEST_F(LearningTest, MnistIsReadUnderEveryStaleness) {
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    model { mlp { hidden: 256 classes: 10 } }
    data { holdout: 0.2 }
    optimizer { name: "sgd" learning_rate: 0.4 }
    schedule { name: "cosine" warmup_steps: 20 final_fraction: 0.1 }
    update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER durability: CHECKPOINT }
    workers: 2
    batch_size: 64
    stop { epochs: 5 }
  )pb");
  spec.mutable_data()->mutable_idx()->set_images(SharedData() + "/t10k-images-idx3-ubyte.gz");
  spec.mutable_data()->mutable_idx()->set_labels(SharedData() + "/t10k-labels-idx1-ubyte.gz");
  std::map<std::string, double> mean;
  for (const std::string mode : {"BSP", "SSP", "ASP"}) {
    for (int seed = 1; seed <= 3; ++seed) {
      spec.set_name(absl::StrCat("mnist ", mode, " seed ", seed));
      spec.set_seed(seed);
      spec.mutable_update()->set_staleness_bound(mode == "SSP" ? 4 : 0);
      spec.mutable_update()->set_unlimited_staleness(mode == "ASP");
      const v1::JobStatus job = Train(spec);
      ASSERT_GE(job.evaluations_size(), 1);
      EXPECT_EQ(job.evaluations().rbegin()->examples(), 2000u);
      mean[mode] += job.evaluations().rbegin()->value() / 3;
    }
  }
  EXPECT_GE(mean["BSP"], 0.95);
  EXPECT_NEAR(mean["SSP"], mean["BSP"], 0.005);
  EXPECT_NEAR(mean["ASP"], mean["BSP"], 0.005);
}

TEST_F(LearningTest, ShakespeareInTwoPointThreeBitsPerByte) {
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    name: "shakespeare"
    model { ngram { orders: 5 embedding_dim: 16 hidden: 128 } }
    data { holdout: 0.1 }
    optimizer { name: "adagrad" learning_rate: 0.1 }
    update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER durability: CHECKPOINT }
    workers: 2
    batch_size: 512
    stop { steps: 1000 }
    seed: 1
  )pb");
  spec.mutable_data()->mutable_text()->set_path(SharedData() + "/tinyshakespeare.txt");
  const v1::JobStatus job = Train(spec);
  ASSERT_GE(job.evaluations_size(), 1);
  EXPECT_LE(job.evaluations().rbegin()->value(), 2.3);
}

// Some seconds of a transformer, by the daemons of either road; shakespeare_test trains one for
// longer. Frequencies of bytes alone would give 4.8 bits; two seeds came to 3.8 and 4.0.
TEST_F(LearningTest, TransformersReadAlikeOnEitherRoad) {
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    model {
      transformer {
        layers: 2
        width: 96
        heads: 4
        context: 64
        norm: RMS_NORM
        positions: ROTARY
        activation: SWIGLU
        no_biases: true
      }
    }
    data { holdout: 0.1 }
    optimizer { name: "adamw" learning_rate: 0.004 beta2: 0.95 weight_decay: 0.1 }
    schedule { name: "cosine" warmup_steps: 20 final_fraction: 0.1 }
    clipping { by_global_norm: 1 }
    workers: 2
    batch_size: 16
    stop { steps: 100 }
    evaluation { metric: "bits_per_byte" max_examples: 200 }
    seed: 1
  )pb");
  spec.mutable_data()->mutable_sequences()->set_path(SharedData() + "/tinyshakespeare.txt");
  std::map<v1::UpdateSpec::Road, double> bits;
  for (const auto road : {v1::UpdateSpec::PARAMETER_SERVER, v1::UpdateSpec::ALL_REDUCE}) {
    spec.set_name(absl::StrCat("shakespeare by ", v1::UpdateSpec::Road_Name(road)));
    spec.mutable_update()->set_dense(road);
    const v1::JobStatus job = Train(spec);
    ASSERT_GE(job.evaluations_size(), 1);
    EXPECT_EQ(job.evaluations().rbegin()->metric(), "bits_per_byte");
    EXPECT_EQ(job.evaluations().rbegin()->examples(), 200u);
    bits[road] = job.evaluations().rbegin()->value();
    EXPECT_NEAR(job.evaluations().rbegin()->loss(), bits[road] * std::log(2.0), 1e-6);
    EXPECT_LE(bits[road], 4.2);
  }
  EXPECT_NEAR(bits[v1::UpdateSpec::PARAMETER_SERVER], bits[v1::UpdateSpec::ALL_REDUCE], 0.02);
}

// The log's own model is logistic, so its true probabilities give the best AUC there is.
TEST(ClickLogTest, ModelsComeWithinAHundredthOfTheBestAuc) {
  constexpr int64_t kExamples = 200000;
  constexpr int64_t kHeldOut = 20000;
  const auto log = SyntheticClicks::Create(
      {.examples = kExamples, .fields = 8, .cardinality = 100, .numeric = 4, .seed = 5});
  ASSERT_TRUE(log.ok()) << log.status();
  std::vector<int64_t> held_out(kHeldOut);
  std::iota(held_out.begin(), held_out.end(), kExamples - kHeldOut);
  Batch batch;
  ASSERT_TRUE((*log)->Read(held_out, batch).ok());
  // Odds order examples as probabilities do, and large ones still differ as floats.
  std::vector<float> odds;
  for (const int64_t index : held_out) {
    const double p = (*log)->TrueProbability(index);
    odds.push_back(static_cast<float>(p / (1 - p)));
  }
  const auto best = ExactAuc(odds, std::vector<uint8_t>(batch.labels.begin(), batch.labels.end()));
  ASSERT_TRUE(best.ok()) << best.status();

  auto cluster = ProcessCluster::Start({});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::pair<std::string, std::string> kModels[] = {
      {"logistic_regression { classes: 2 }", "0.1"},
      {"deep_fm { embedding_dim: 8 hidden: 32 }", "0.02"}};
  for (const auto& [model, learning_rate] : kModels) {
    const v1::JobSpec spec = ParseJobOrDie(
        absl::StrCat("model { ", model,
                     " } optimizer { name: 'adagrad' learning_rate: ", learning_rate, " } ", R"pb(
          data {
            synthetic_clicks { examples: 200000 fields: 8 cardinality: 100 numeric: 4 seed: 5 }
            holdout: 0.1
          }
          update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER durability: CHECKPOINT }
          workers: 2
          batch_size: 512
          stop { epochs: 1 }
          evaluation { metric: "auc" }
          seed: 1
        )pb"));
    const auto id = (*cluster)->Submit(spec);
    ASSERT_TRUE(id.ok()) << id.status();
    const auto job = (*cluster)->AwaitEnd(*id);
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_EQ(job->state(), v1::SUCCEEDED) << (*cluster)->Diagnose(*id);
    ASSERT_GE(job->evaluations_size(), 1);
    const double auc = job->evaluations().rbegin()->value();
    std::cout << model << ": AUC " << auc << ", best " << *best << std::endl;
    EXPECT_EQ(job->evaluations().rbegin()->examples(), static_cast<uint64_t>(kHeldOut));
    EXPECT_GT(auc, *best - 0.01);
  }
}

TEST_F(LearningTest, CriteoSampleTrainsWithItsGaps) {
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    name: "criteo"
    model { deep_fm { embedding_dim: 8 hidden: 32 } }
    data { holdout: 0.2 }
    optimizer { name: "adagrad" learning_rate: 0.05 }
    update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER durability: CHECKPOINT }
    workers: 2
    batch_size: 32
    stop { epochs: 20 }
    evaluation { every_steps: 25 }
    seed: 1
  )pb");
  auto& csv = *spec.mutable_data()->mutable_csv();
  csv.set_path(SharedData() + "/criteo_sample.csv");
  csv.set_label("label");
  for (int i = 1; i <= 13; ++i) csv.add_numeric(absl::StrCat("I", i));
  for (int i = 1; i <= 26; ++i) csv.add_categorical(absl::StrCat("C", i));
  const v1::JobStatus job = Train(spec);
  ASSERT_GE(job.evaluations_size(), 1);
  for (const auto& evaluation : job.evaluations()) {
    EXPECT_EQ(evaluation.examples(), 40u);
    EXPECT_TRUE(std::isfinite(evaluation.loss()));
  }
  // 160 rows are soon known by heart: the training loss shows that the gradients of gaps are right.
  EXPECT_LT(job.progress().loss(), 0.2);
}

}  // namespace
}  // namespace muster
