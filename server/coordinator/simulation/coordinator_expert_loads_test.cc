// What users see of the loads of a job's experts, as its tasks report them.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/history/job_history.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two blocks of four experts, on two workers.
v1::JobSpec ExpertJob() {
  v1::JobSpec spec = SmallJob();
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_layers(2);
  transformer.set_width(8);
  transformer.set_heads(2);
  transformer.set_vocabulary(300);
  transformer.set_context(8);
  transformer.set_no_biases(true);
  transformer.mutable_moe()->set_experts(4);
  transformer.mutable_moe()->set_top_k(2);
  spec.mutable_data()->mutable_sequences()->set_path("/somewhere");
  return spec;
}

class ExpertLoadsTest : public ::testing::Test {
 protected:
  ExpertLoadsTest() {
    cluster_.AddServer("s0");
    cluster_.AddWorker("w0", /*slots=*/2);
  }

  std::string Running() {
    const std::string job = *cluster_.Submit(ExpertJob());
    cluster_.MeetAll(job);
    EXPECT_EQ(cluster_.State(job), v1::RUNNING);
    return job;
  }

  v1::ReportProgressRequest Report(const std::string& job, uint32_t slot, uint64_t clock,
                                   const std::vector<uint32_t>& blocks,
                                   const std::vector<uint64_t>& tokens) {
    v1::ReportProgressRequest report;
    *report.mutable_task() = SimulatedCluster::Identity(*cluster_.Order(job, slot));
    report.set_clock(clock);
    report.set_steps(1);
    report.set_number(clock);
    report.set_examples(4);
    v1::ExpertLoads& loads = *report.mutable_expert_loads();
    loads.set_experts(4);
    loads.mutable_blocks()->Add(blocks.begin(), blocks.end());
    loads.mutable_tokens()->Add(tokens.begin(), tokens.end());
    return report;
  }

  absl::Status Send(const v1::ReportProgressRequest& report) {
    const absl::Status status = cluster_.coordinator().tasks().ReportProgress(report).status();
    cluster_.Run();
    return status;
  }

  // Returns the last point of a series of the job's history; -1: it has none.
  double Last(const std::string& job, absl::string_view series) {
    const Job& found = *cluster_.coordinator().table().Find(job);
    for (const JobHistory::Named& named : found.history->history().series()) {
      if (named.name == series) return named.series.points().back().last;
    }
    return -1;
  }

  SimulatedCluster cluster_;
};

TEST_F(ExpertLoadsTest, StatusHasTheSumsOfAllTasks) {
  const std::string job = Running();
  EXPECT_FALSE(cluster_.Status(job).has_expert_loads());
  const auto first = Report(job, 0, 1, {0, 1}, {1, 2, 3, 2, 4, 4, 0, 0});
  ASSERT_TRUE(Send(first).ok());
  ASSERT_TRUE(Send(Report(job, 1, 1, {1}, {0, 0, 4, 4})).ok());
  // Its answer was lost.
  ASSERT_TRUE(Send(first).ok());
  const v1::JobStatus status = cluster_.Status(job);
  EXPECT_EQ(status.expert_loads().experts(), 4);
  EXPECT_THAT(status.expert_loads().blocks(), ElementsAre(0, 1));
  EXPECT_THAT(status.expert_loads().tokens(), ElementsAre(1, 2, 3, 2, 4, 4, 4, 4));
  v1::ListJobsRequest request;
  request.set_view(v1::ListJobsRequest::SHORT);
  EXPECT_FALSE(cluster_.coordinator().jobs().List(request)->jobs(0).has_expert_loads());
}

TEST_F(ExpertLoadsTest, SeriesAndMetricsHaveTheLeastAndTheMostLoadedOfAllTasks) {
  const std::string job = Running();
  const auto step = [&](uint64_t clock, const std::vector<uint64_t>& first,
                        const std::vector<uint64_t>& second) {
    ASSERT_TRUE(Send(Report(job, 0, clock, {0}, first)).ok());
    ASSERT_TRUE(Send(Report(job, 1, clock, {1}, second)).ok());
    cluster_.Pass(absl::Seconds(2));
  };
  step(1, {1, 2, 3, 2}, {5, 1, 1, 1});
  step(2, {1, 2, 3, 2}, {5, 1, 1, 1});
  EXPECT_EQ(Last(job, "train/expert_load_lowest"), 0.5);
  EXPECT_EQ(Last(job, "train/expert_load_highest"), 2.5);
  // A point is of the steps since the one before, metrics are of the last minute.
  step(3, {4, 4, 4, 4}, {4, 4, 4, 4});
  EXPECT_EQ(Last(job, "train/expert_load_lowest"), 1);
  EXPECT_EQ(Last(job, "train/expert_load_highest"), 1);
  const std::string text = cluster_.coordinator().jobs().Metrics().text();
  const auto line = [&](const char* which, const char* value) {
    return absl::StrCat("\nmuster_job_expert_load_", which, "{job_id=\"", job, "\"} ", value, "\n");
  };
  EXPECT_THAT(text, HasSubstr(line("lowest", "0.75")));
  EXPECT_THAT(text, HasSubstr(line("highest", "1.75")));
}

TEST_F(ExpertLoadsTest, TheWindowBeginsAnewWithTheCoordinatorAndWhenTheJobGoesBack) {
  const std::string job = Running();
  ASSERT_TRUE(Send(Report(job, 0, 1, {0}, {1, 2, 3, 2})).ok());
  cluster_.RestartCoordinator();
  EXPECT_FALSE(cluster_.Status(job).has_expert_loads());
  ASSERT_TRUE(Send(Report(job, 0, 2, {0}, {1, 1, 1, 1})).ok());
  EXPECT_THAT(cluster_.Status(job).expert_loads().tokens(), ElementsAre(1, 1, 1, 1));
  cluster_.RestartDaemon("s0");
  cluster_.Pass(kLease);
  EXPECT_FALSE(cluster_.Status(job).has_expert_loads());
}

TEST_F(ExpertLoadsTest, LoadsOfOtherExpertsThanTheJobsAreRefused) {
  const std::string job = Running();
  std::vector<uint64_t> dropped;
  const auto refused = [&](const std::vector<uint32_t>& blocks, const std::vector<uint64_t>& tokens,
                           uint32_t experts = 4) {
    v1::ReportProgressRequest report = Report(job, 0, 1, blocks, tokens);
    report.mutable_expert_loads()->set_experts(experts);
    report.mutable_expert_loads()->mutable_dropped()->Add(dropped.begin(), dropped.end());
    const absl::Status status = Send(report);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refused({0}, {1, 1}, 2), HasSubstr("experts is 2; the job's blocks have 4"));
  EXPECT_THAT(refused({2}, {1, 1, 1, 1}), HasSubstr("blocks[0] is 2; name each block once"));
  EXPECT_THAT(refused({1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}), HasSubstr("blocks[1] is 1"));
  EXPECT_THAT(refused({0, 1}, {1, 1, 1, 1}), HasSubstr("experts times blocks are 8"));
  EXPECT_THAT(refused({0}, {1, 1, 1, ~uint64_t{0}}), HasSubstr("tokens is 184467440737"));
  dropped = {1, 1};
  EXPECT_THAT(refused({0}, {1, 1, 1, 1}), HasSubstr("dropped is of 2 numbers; blocks are 1"));
  dropped = {~uint64_t{0}};
  EXPECT_THAT(refused({0}, {1, 1, 1, 1}), HasSubstr("dropped is 184467440737"));
  EXPECT_FALSE(cluster_.Status(job).has_expert_loads());
}

}  // namespace
}  // namespace muster
