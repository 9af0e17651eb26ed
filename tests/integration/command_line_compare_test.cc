// What a user types about a job before it is submitted: plan and compare.

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/bytes_of_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"
#include "tests/integration/written_job.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Result = CommandResult;

TEST(CommandLineCompareTest, PlansAJobWithoutACluster) {
  const std::string job = WriteJob("plan.textproto", SmallJob());
  Result result = Muster("plan " + job);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("Memory of each worker"));
  EXPECT_THAT(result.output, HasSubstr("stage 3"));
  result = Muster("plan --output json " + job);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto plan = nlohmann::json::parse(result.output);
  // 20 -> 32 -> 4 with biases, each way between a worker and the servers.
  EXPECT_EQ(plan["dense_parameters"], 21 * 32 + 33 * 4);
  EXPECT_EQ(plan["traffic_per_step_and_worker"][0]["dense_bytes_sent"], 4 * (21 * 32 + 33 * 4));
  EXPECT_GT(plan["worker_bytes"], 20 << 20);

  v1::JobSpec spoiled = SmallJob();
  spoiled.clear_model();
  result = Muster("plan " + WriteJob("spoiled.textproto", spoiled));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("model is not set"));
}

TEST(CommandLineCompareTest, TakesOtherDataThanAJobNames) {
  const std::string here = ::testing::TempDir() + "/here.txt";
  std::ofstream(here) << std::string(10000, 'a');
  v1::JobSpec spec = SmallJob();
  v1::NgramSpec* const ngram = spec.mutable_model()->mutable_ngram();
  ngram->set_orders(2);
  ngram->set_embedding_dim(4);
  ngram->set_hidden(8);
  spec.mutable_data()->mutable_text()->set_path("/no/such.txt");
  const std::string job = WriteJob("elsewhere.textproto", spec);
  Result result = Muster("plan " + job);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("/no/such.txt cannot be read"));
  result = Muster(absl::StrCat("plan ", job, " --data ", here));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr("cannot be read")));

  for (const std::string command : {"plan ", "submit ", "compare "}) {
    result =
        Muster(absl::StrCat(command, WriteJob("made.textproto", SmallJob()), " --data ", here));
    EXPECT_EQ(result.exit_code, 2) << command << result.output;
    EXPECT_THAT(result.output, HasSubstr("the job's data is synthetic")) << command;
  }
}

TEST(CommandLineCompareTest, ComparesAllRoadsOfAJob) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_deterministic(false);
  spec.mutable_evaluation()->set_every_steps(50);
  const std::string job = WriteJob("compared.textproto", spec);
  const std::string report = ::testing::TempDir() + "/roads.html";
  Result result = Muster(
      absl::StrCat("compare ", job, " --repeats 1 --warmup 5 --output json --report ", report));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto compared = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(compared.is_object()) << result.output;
  EXPECT_EQ(compared["workers"], 2);
  const nlohmann::json& roads = compared["roads"];
  ASSERT_EQ(roads.size(), 4u) << result.output;
  for (const nlohmann::json& road : roads) {
    ASSERT_EQ(road["runs"].size(), 1u);
    const nlohmann::json& run = road["runs"][0];
    // The layout says exactly what travels.
    EXPECT_EQ(run["dense_bytes_sent_per_step_and_worker"], run["predicted_dense_bytes_sent"]);
    EXPECT_EQ(run["dense_bytes_received_per_step_and_worker"],
              run["predicted_dense_bytes_received"]);
    EXPECT_EQ(run["dense_bytes_per_step_by_worker"].size(), 2u);
    EXPECT_EQ(run["dense_bytes_per_step_by_worker"], run["predicted_dense_bytes_by_worker"]);
    EXPECT_EQ(run["dense_bytes_sent_by_servers"], run["predicted_dense_bytes_sent_by_servers"]);
    EXPECT_GT(run["steps_per_second"], 0);
    EXPECT_EQ(run["curve"].size(), 2u);
  }
  EXPECT_EQ(roads[0]["road"], "BSP");
  EXPECT_EQ(roads[3]["road"], "all-reduce");
  EXPECT_TRUE(compared["not_as_predicted"].empty()) << result.output;
  const nlohmann::json& servers = roads[0]["runs"][0]["dense_bytes_sent_by_servers"];
  ASSERT_EQ(servers.size(), 2u);
  for (const auto& bytes : servers) EXPECT_GT(bytes, 0);
  EXPECT_EQ(roads[3]["runs"][0]["dense_bytes_sent_by_servers"].size(), 0u);
  const std::string html = BytesOfFile(report);
  // A page of its own, with the data that its script draws; not printed where one lacks.
  EXPECT_NE(html.find("<script type=\"application/json\" id=\"comparison\">"), std::string::npos);
  EXPECT_NE(html.find("\"train/loss\""), std::string::npos);
  EXPECT_NE(html.find("all-reduce"), std::string::npos);

  EXPECT_EQ(Muster("compare /no/such/job.textproto").exit_code, 2);
  result = Muster(absl::StrCat("compare ", job, " --report /no/such/folder/r.html"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("/no/such/folder/r.html"));
  EXPECT_EQ(Muster(absl::StrCat("compare ", job, " --processors 100000")).exit_code, 2);
}

TEST(CommandLineCompareTest, ComparesAllStagesOfZero) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_stop()->set_steps(40);
  const std::string job = WriteJob("stages.textproto", spec);
  const Result result =
      Muster(absl::StrCat("compare ", job, " --zero --repeats 1 --warmup 5 --output json"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto compared = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(compared.is_object()) << result.output;
  EXPECT_TRUE(compared["not_as_predicted"].empty()) << compared["not_as_predicted"];
  const nlohmann::json& stages = compared["stages"];
  ASSERT_EQ(stages.size(), 4) << result.output;
  for (size_t i = 0; i < stages.size(); ++i) {
    EXPECT_EQ(stages[i]["stage"], absl::StrCat("stage ", i));
    const nlohmann::json& run = stages[i]["runs"][0];
    EXPECT_EQ(run["dense_bytes_per_step_by_worker"], run["predicted_dense_bytes_by_worker"]);
    EXPECT_GT(run["largest_worker_own_peak_bytes"], 10 << 20);
    EXPECT_GT(run["planned_worker_own_bytes"], 10 << 20);
    EXPECT_GT(run["planned_operations_per_step"], 0);
    EXPECT_GT(run["steps_per_second"], 0);
    // The job is deterministic.
    EXPECT_EQ(run["training_loss"], stages[0]["runs"][0]["training_loss"]);
  }
}

// Compares the roads of a job of so many workers on one transport.
void ExpectPredictedBytes(int workers, const std::string& transport) {
  SCOPED_TRACE(absl::StrCat(workers, " workers, ", transport));
  // 10,710 parameters whose sums go by parts or in pairs, and 2,044 in a bucket that goes to all.
  v1::JobSpec spec = SmallJob();
  spec.mutable_model()->mutable_mlp()->set_hidden(0, 510);
  spec.mutable_update()->set_deterministic(false);
  spec.mutable_update()->set_first_bucket_bytes(10000);
  // By BSP and all-reduce alone.
  spec.mutable_clipping()->set_by_global_norm(100);
  spec.mutable_evaluation()->set_every_steps(20);
  spec.mutable_stop()->set_steps(40);
  spec.set_workers(workers);
  const std::string job = WriteJob(absl::StrCat("compared", workers, ".textproto"), spec);
  const Result result = Muster(absl::StrCat("compare ", job, " --repeats 1 --warmup 5 ",
                                            "--output json --collectives-transport ", transport));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto compared = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(compared.is_object()) << result.output;
  EXPECT_TRUE(compared["not_as_predicted"].empty()) << compared["not_as_predicted"];
  ASSERT_EQ(compared["roads"].size(), 2u) << result.output;
  for (const nlohmann::json& road : compared["roads"]) {
    const nlohmann::json& run = road["runs"][0];
    EXPECT_EQ(run["dense_bytes_per_step_by_worker"].size(), workers);
    EXPECT_EQ(run["dense_bytes_per_step_by_worker"], run["predicted_dense_bytes_by_worker"]);
    EXPECT_EQ(run["dense_bytes_sent_by_servers"], run["predicted_dense_bytes_sent_by_servers"]);
  }
}

TEST(CommandLineCompareTest, ComparedBytesAreThosePredictedForAnyNumberOfWorkers) {
  ExpectPredictedBytes(3, "tcp");
  ExpectPredictedBytes(4, "shared_memory");
}

TEST(CommandLineCompareTest, ComparedBytesAreThosePredictedForAnyNumberOfWorkersExhaustive) {
  ExpectPredictedBytes(3, "shared_memory");
  ExpectPredictedBytes(4, "tcp");
}

}  // namespace
}  // namespace muster
