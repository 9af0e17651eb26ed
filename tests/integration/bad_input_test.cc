// Wrong jobs and data: each gives one clear error, and the cluster goes on serving others.

#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BadInputTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto cluster = ProcessCluster::Start({.servers = 1, .workers = 2});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = cluster->release();
  }
  static void TearDownTestSuite() {
    // Whatever the tests did, the cluster still trains.
    ASSERT_NE(cluster_, nullptr);
    const auto id = cluster_->Submit(SmallJob());
    ASSERT_TRUE(id.ok()) << id.status();
    const auto status = cluster_->AwaitEnd(*id);
    EXPECT_TRUE(status.ok() && status->state() == v1::SUCCEEDED) << status.status();
    delete cluster_;
    cluster_ = nullptr;
  }
  void SetUp() override { ASSERT_NE(cluster_, nullptr); }

  // The coordinator's refusal at submit.
  std::string Refusal(const std::function<void(v1::JobSpec&)>& spoil) {
    v1::JobSpec spec = SmallJob();
    spoil(spec);
    const auto id = cluster_->Submit(spec);
    EXPECT_EQ(id.status().code(), absl::StatusCode::kInvalidArgument) << id.status();
    return std::string(id.status().message());
  }

  // The message of a job that was taken and failed.
  std::string Failure(const v1::JobSpec& spec) {
    const auto id = cluster_->Submit(spec);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return "";
    const auto status = cluster_->AwaitEnd(*id);
    EXPECT_TRUE(status.ok()) << status.status();
    if (!status.ok()) return "";
    EXPECT_EQ(status->state(), v1::FAILED) << cluster_->Diagnose(*id);
    return status->message();
  }

  static std::string WriteFile(const std::string& name, const std::string& content) {
    const std::string path = ::testing::TempDir() + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  static ProcessCluster* cluster_;
};

ProcessCluster* BadInputTest::cluster_ = nullptr;

TEST_F(BadInputTest, SpecificationErrorsNameFieldValueAndRemedy) {
  std::string message = Refusal([](auto& job) { job.mutable_optimizer()->set_name("adamax"); });
  EXPECT_THAT(message, HasSubstr("adamax"));
  EXPECT_THAT(message, HasSubstr("adamw"));
  message = Refusal([](auto& job) {
    job.mutable_update()->set_deterministic(false);
    job.mutable_update()->set_staleness_bound(-1);
  });
  EXPECT_THAT(message, HasSubstr("staleness_bound"));
  EXPECT_THAT(message, HasSubstr("-1"));
  EXPECT_THAT(Refusal([](auto& job) { job.set_workers(5000); }), HasSubstr("workers"));
  EXPECT_THAT(Refusal([](auto& job) { job.set_batch_size(1); }), HasSubstr("batch_size"));
  EXPECT_THAT(Refusal([](auto& job) { job.clear_model(); }), HasSubstr("model"));
  EXPECT_THAT(Refusal([](auto& job) { job.clear_data(); }), HasSubstr("data"));
  EXPECT_THAT(Refusal([](auto& job) { job.mutable_stop()->set_epochs(2); }), HasSubstr("stop"));
  message = Refusal([](auto& job) {
    job.mutable_update()->set_deterministic(false);
    job.mutable_update()->set_staleness_bound(2);
    job.mutable_clipping()->set_by_global_norm(1);
  });
  EXPECT_THAT(message, HasSubstr("by_global_norm"));
  EXPECT_THAT(Refusal([](auto& job) { job.mutable_update()->set_staleness_bound(1); }),
              HasSubstr("deterministic"));
}

TEST_F(BadInputTest, BatchLargerThanTheData) {
  v1::JobSpec spec = SmallJob();
  spec.set_batch_size(1601);
  const std::string message = Failure(spec);
  EXPECT_THAT(message, HasSubstr("1601"));
  EXPECT_THAT(message, HasSubstr("1600"));
}

TEST_F(BadInputTest, MissingPath) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_data()->mutable_csv()->set_path("/no/such/file.csv");
  spec.mutable_data()->mutable_csv()->set_label("y");
  spec.mutable_data()->mutable_csv()->add_numeric("x");
  EXPECT_THAT(Failure(spec), HasSubstr("/no/such/file.csv"));
}

TEST_F(BadInputTest, AnErrorReachesStatusWhateverBytesItHas) {
  v1::JobSpec spec = SmallJob();
  spec.clear_model();
  spec.mutable_model()->mutable_transformer()->set_layers(1);
  spec.mutable_model()->mutable_transformer()->set_width(16);
  spec.mutable_model()->mutable_transformer()->set_heads(2);
  spec.mutable_model()->mutable_transformer()->set_context(16);
  v1::SequenceData& data = *spec.mutable_data()->mutable_sequences();
  data.set_path(WriteFile("text.txt", std::string(5000, 'x')));
  // What is quoted of it is cut where a character of three bytes is.
  std::string normalizer;
  for (int i = 0; i < 60; ++i) normalizer += "\xe2\x82\xac";
  data.set_tokenizer(
      WriteFile("tokenizer.json",
                "{\"model\": {\"type\": \"BPE\"}, \"normalizer\": \"" + normalizer + "\"}"));
  std::string message = Failure(spec);
  EXPECT_THAT(message, HasSubstr("tokenizer.json: normalizer is"));
  EXPECT_THAT(message, Not(HasSubstr("without progress"))) << "tried again";

  const std::string folder = ::testing::TempDir() + "/texts";
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink("nowhere", folder + "/gr\xf6sse.txt");
  data.set_path(folder);
  data.set_tokenizer("bytes");
  message = Failure(spec);
  EXPECT_THAT(message, HasSubstr("gr\\xf6sse.txt"));
  EXPECT_THAT(message, Not(HasSubstr("without progress"))) << "tried again";
}

// A log that nobody reads any more, a file that may not grow: errors, not a daemon's end.
TEST_F(BadInputTest, NoDaemonEndsByTheSignalsOfFiles) {
  for (const std::string daemon : {"coordinator", "server-0", "worker-0"}) {
    std::ifstream file(absl::StrCat("/proc/", cluster_->pid(daemon), "/status"));
    std::string word;
    while (file >> word && word != "SigIgn:") continue;
    uint64_t ignored = 0;
    file >> std::hex >> ignored;
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      EXPECT_NE(ignored >> (signal - 1) & 1, 0) << daemon << " and signal " << signal;
    }
  }
}

TEST_F(BadInputTest, EmptyFile) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_model()->mutable_ngram()->set_orders(2);
  spec.mutable_model()->mutable_ngram()->set_embedding_dim(4);
  spec.mutable_model()->mutable_ngram()->set_hidden(8);
  spec.mutable_data()->mutable_text()->set_path(WriteFile("empty.txt", ""));
  EXPECT_THAT(Failure(spec), HasSubstr("empty.txt"));
}

TEST_F(BadInputTest, RaggedCsvNamesTheLine) {
  v1::JobSpec spec = SmallJob();
  auto& csv = *spec.mutable_data()->mutable_csv();
  csv.set_path(WriteFile("ragged.csv", "y,a,b\n0,1,2\n1,3\n"));
  csv.set_label("y");
  csv.add_numeric("a");
  csv.add_numeric("b");
  EXPECT_THAT(Failure(spec), HasSubstr("ragged.csv:3"));
}

TEST_F(BadInputTest, InfinityInTheData) {
  v1::JobSpec spec = SmallJob();
  auto& csv = *spec.mutable_data()->mutable_csv();
  csv.set_path(WriteFile("inf.csv", "y,a,b\n0,1,2\n1,inf,4\n"));
  csv.set_label("y");
  csv.add_numeric("a");
  csv.add_numeric("b");
  EXPECT_THAT(Failure(spec), HasSubstr("inf.csv:3"));
}

TEST_F(BadInputTest, LibsvmWithABadIndex) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_model()->mutable_logistic_regression()->set_classes(2);
  spec.mutable_data()->mutable_libsvm()->set_path(WriteFile("bad.libsvm", "1 1:0.5\n0 x:1\n"));
  EXPECT_THAT(Failure(spec), HasSubstr("bad.libsvm:2"));
}

TEST_F(BadInputTest, TruncatedIdx) {
  v1::JobSpec spec = SmallJob();
  const std::string header("\0\0\x08\x03\0\0\0\x0a\0\0\0\x02\0\0\0\x02", 16);
  spec.mutable_data()->mutable_idx()->set_images(WriteFile("images.idx", header + "abc"));
  spec.mutable_data()->mutable_idx()->set_labels(
      WriteFile("labels.idx", std::string("\0\0\x08\x01\0\0\0\x0a", 8) + std::string(10, '\1')));
  EXPECT_THAT(Failure(spec), HasSubstr("images.idx"));
}

TEST_F(BadInputTest, DataThatDoesNotFitTheModel) {
  const std::string message =
      Refusal([](auto& job) { job.mutable_data()->mutable_libsvm()->set_path("/data.libsvm"); });
  EXPECT_THAT(message, HasSubstr("libsvm"));
  EXPECT_THAT(message, HasSubstr("mlp"));
}

TEST_F(BadInputTest, DivergingJobFailsWithItsStep) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_optimizer()->set_learning_rate(1e30f);
  const std::string message = Failure(spec);
  EXPECT_THAT(message, HasSubstr("diverged"));
  EXPECT_THAT(message, HasSubstr("step"));
}

}  // namespace
}  // namespace muster
