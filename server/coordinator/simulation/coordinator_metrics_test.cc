// The families that Prometheus is shown of jobs, daemons and tasks.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "common/metrics/time_bounds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/metrics/job_metrics.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CoordinatorMetricsTest : public ::testing::Test {
 protected:
  CoordinatorMetricsTest() {
    cluster_.AddServer("s0");
    cluster_.AddWorker("w0", /*slots=*/1);
    cluster_.AddWorker("w1", /*slots=*/1);
  }

  std::string Text() { return cluster_.coordinator().jobs().Metrics().text(); }

  // Returns the text `name{job_id="JOB"LABELS} VALUE` and the end of the line.
  static std::string Line(const std::string& name, const std::string& job, const std::string& value,
                          const std::string& labels = "") {
    return absl::StrCat("\n", name, "{job_id=\"", job, "\"", labels, "} ", value, "\n");
  }

  void Heartbeat(const std::string& id, const v1::MetricFamily& family) {
    v1::HeartbeatRequest request;
    request.set_id(id);
    request.set_incarnation(cluster_.daemon(id).incarnation);
    *request.add_metrics() = family;
    Answer<v1::HeartbeatReply> answer;
    cluster_.coordinator().daemons().Heartbeat(request, answer.call());
    cluster_.Run();
  }

  static v1::ReportProgressRequest Report(const v1::TaskOrder& order, uint64_t clock) {
    v1::ReportProgressRequest report;
    *report.mutable_task() = SimulatedCluster::Identity(order);
    report.set_clock(clock);
    report.set_steps(clock);
    return report;
  }

  SimulatedCluster cluster_;
};

v1::MetricFamily Pushed(double bytes) {
  v1::MetricFamily family;
  family.set_name("muster_server_pushed_bytes_total");
  family.set_help("Payload bytes of pushes.");
  family.set_type(v1::MetricFamily::COUNTER);
  v1::Metric& metric = *family.add_metrics();
  v1::MetricLabel& label = *metric.add_labels();
  label.set_name("job_id");
  label.set_value("x");
  metric.set_value(bytes);
  return family;
}

TEST_F(CoordinatorMetricsTest, CountsJobsAndDaemons) {
  Heartbeat("s0", Pushed(42));
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("muster_jobs{state=\"RUNNING\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("muster_jobs_submitted_total 1\n"));
  EXPECT_THAT(text, HasSubstr("muster_daemon_live{daemon=\"s0\",kind=\"server\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("muster_worker_slots_used{daemon=\"w0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# HELP muster_server_pushed_bytes_total Payload bytes of pushes.\n"
                              "# TYPE muster_server_pushed_bytes_total counter\n"
                              "muster_server_pushed_bytes_total{daemon=\"s0\",job_id=\"x\"} 42\n"));
  EXPECT_THAT(text, HasSubstr("muster_build_info{daemon=\"coordinator\",program="));
}

// The text is made on other threads, while heartbeats go on.
TEST_F(CoordinatorMetricsTest, TheTextIsOfTheMomentInWhichMetricsWereGathered) {
  Heartbeat("s0", Pushed(42));
  GatheredMetrics gathered = cluster_.coordinator().jobs().GatherMetrics();
  Heartbeat("s0", Pushed(43));
  cluster_.Kill("s0");
  cluster_.Pass(kLease + absl::Seconds(1));
  const std::string text = std::move(gathered).Text();
  EXPECT_THAT(text, HasSubstr("{daemon=\"s0\",job_id=\"x\"} 42\n"));
  EXPECT_THAT(text, HasSubstr("muster_daemon_live{daemon=\"s0\",kind=\"server\"} 1\n"));
}

TEST_F(CoordinatorMetricsTest, ADaemonThatWasDrainedAndStoppedIsNotLost) {
  cluster_.AddServer("s1");
  v1::DrainServerRequest drain;
  drain.set_server_id("s1");
  ASSERT_TRUE(cluster_.coordinator().moves().Drain(drain).ok());
  EXPECT_THAT(Text(), HasSubstr("muster_daemon_live{daemon=\"s1\",kind=\"server\"} 1\n"));
  for (const char* server : {"s0", "s1"}) cluster_.Kill(server);
  cluster_.Pass(kLease + absl::Seconds(1));
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("muster_daemon_live{daemon=\"s0\",kind=\"server\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("daemon=\"s1\"")));
}

TEST_F(CoordinatorMetricsTest, LeavesOutWhatPrometheusCannotRead) {
  v1::MetricFamily family = Pushed(42);
  family.set_name("muster_a\nup 1");
  Heartbeat("s0", family);
  const std::string text = Text();
  EXPECT_THAT(text, Not(HasSubstr("muster_a")));
  EXPECT_THAT(text, HasSubstr("muster_metric_families_refused_total 1\n"));
}

TEST_F(CoordinatorMetricsTest, ShowsJobsForAWhileAfterTheirEnd) {
  v1::JobSpec spec = SmallJob();
  spec.set_name("a \"quoted\" name");
  spec.set_owner("ada");
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  for (const v1::TaskOrder& order : cluster_.Orders(job)) {
    ASSERT_TRUE(cluster_.Progress(order, 4).ok());
  }
  cluster_.EvaluateAll(job, 4);
  EXPECT_THAT(Text(), HasSubstr(absl::StrCat("\nmuster_job_info{job_id=\"", job,
                                             "\",name=\"a \\\"quoted\\\" name\",owner=\"ada\",")));
  EXPECT_THAT(Text(), HasSubstr(Line("muster_job_step", job, "4")));
  const v1::EvaluationResult last = cluster_.Status(job).evaluations(0);
  EXPECT_THAT(Text(), HasSubstr(Line("muster_job_evaluation", job, absl::StrCat(last.value()),
                                     absl::StrCat(",metric=\"", last.metric(), "\""))));
  EXPECT_THAT(Text(), HasSubstr(Line("muster_job_slots_placed", job, "2")));
  cluster_.Finish(job);
  cluster_.Run();
  EXPECT_THAT(Text(), HasSubstr(Line("muster_job_state", job, "1", ",state=\"SUCCEEDED\"")));
  EXPECT_THAT(Text(), Not(HasSubstr("muster_job_slots_placed")));
  cluster_.clock.Advance(kEndedJobsShown);
  EXPECT_THAT(Text(), Not(HasSubstr(job)));
}

TEST_F(CoordinatorMetricsTest, ShowsWhereTimeGoesAndCheckpoints) {
  // Time 0 stands for a time that is not known.
  cluster_.clock.Advance(absl::Seconds(1));
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  for (const v1::TaskOrder& order : cluster_.Orders(job)) {
    v1::ReportProgressRequest report = Report(order, 4);
    report.set_number(1);
    report.set_examples(20);
    report.set_tokens(400);
    report.set_training_seconds(8);
    report.set_compute_seconds(4);
    report.set_exposed_communication_seconds(2);
    report.set_waiting_seconds(1);
    ASSERT_TRUE(cluster_.coordinator().tasks().ReportProgress(report).ok());
    // Its answer was lost.
    ASSERT_TRUE(cluster_.coordinator().tasks().ReportProgress(report).ok());
  }
  EXPECT_THAT(Text(), HasSubstr(Line("muster_job_steps_total", job, "4")));
  EXPECT_THAT(Text(), HasSubstr(Line("muster_job_examples_total", job, "40")));
  EXPECT_THAT(Text(), HasSubstr(Line("muster_job_tokens_total", job, "800")));
  const std::string seconds = "muster_job_slot_seconds_total";
  EXPECT_THAT(Text(), HasSubstr(Line(seconds, job, "8", ",part=\"compute\"")));
  EXPECT_THAT(Text(), HasSubstr(Line(seconds, job, "4", ",part=\"communication\"")));
  EXPECT_THAT(Text(), HasSubstr(Line(seconds, job, "2", ",part=\"data\"")));
  EXPECT_THAT(Text(), HasSubstr(Line(seconds, job, "2", ",part=\"other\"")));
  EXPECT_THAT(Text(), Not(HasSubstr("muster_job_checkpoint_step")));
  ASSERT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 4).status().ok());
  EXPECT_THAT(Text(), HasSubstr(Line("muster_job_checkpoint_step", job, "4")));
  EXPECT_THAT(Text(), HasSubstr("\nmuster_job_checkpoint_timestamp_seconds{"));
  EXPECT_THAT(Text(), Not(HasSubstr("muster_job_checkpoint_seconds"))) << "the task told none";
  v1::CommitCheckpointRequest request;
  *request.mutable_task() = SimulatedCluster::Identity(*cluster_.Order(job, 0));
  request.set_clock(5);
  request.set_seconds(2.5);
  Answer<v1::CommitCheckpointReply> answer;
  cluster_.coordinator().tasks().CommitCheckpoint(request, answer.call());
  cluster_.Run();
  ASSERT_TRUE(answer.status().ok());
  EXPECT_THAT(Text(), HasSubstr(Line("muster_job_checkpoint_seconds", job, "2.5")));
}

TEST_F(CoordinatorMetricsTest, NamesTheReasonOfAWait) {
  const auto waits = [](const std::string& job, const std::string& reason) {
    return HasSubstr(Line("muster_job_waiting", job, "1", ",reason=\"" + reason + "\""));
  };
  const std::string first = *cluster_.Submit(SmallJob());
  const std::string second = *cluster_.Submit(SmallJob());
  const std::string third = *cluster_.Submit(SmallJob());
  EXPECT_THAT(Text(), waits(first, "tasks"));
  EXPECT_THAT(Text(), waits(second, "resources"));
  EXPECT_THAT(Text(), waits(third, "earlier_job"));
  cluster_.MeetAll(first);
  cluster_.ProgressAll(first, 1);
  EXPECT_THAT(Text(), Not(HasSubstr(absl::StrCat("muster_job_waiting{job_id=\"", first))));
}

TEST_F(CoordinatorMetricsTest, AddsUpCollectiveCallsOfADaemonsTasks) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  const std::string worker = cluster_.Status(job).tasks(0).worker_id();
  v1::ReportProgressRequest report = Report(order, 1);
  v1::CollectiveTimes& times = *report.add_collective_times();
  times.set_operation("all_reduce");
  times.set_seconds(0.5);
  for (size_t bucket = 0; bucket < kTimeBuckets; ++bucket) times.add_counts(bucket == 0 ? 3 : 0);
  v1::CollectiveTimes& malformed = *report.add_collective_times();
  malformed.set_operation("barrier");
  malformed.add_counts(1);
  // The second report comes twice.
  for (const uint64_t number : {1, 2, 2}) {
    report.set_number(number);
    ASSERT_TRUE(cluster_.coordinator().tasks().ReportProgress(report).ok());
  }
  const std::string labels = absl::StrCat("{daemon=\"", worker, "\",operation=\"all_reduce\"");
  EXPECT_THAT(Text(), HasSubstr(absl::StrCat("muster_collective_seconds_sum", labels, "} 1\n")));
  EXPECT_THAT(Text(), HasSubstr(absl::StrCat("muster_collective_seconds_bucket", labels,
                                             ",le=\"+Inf\"} 6\n")));
  EXPECT_THAT(Text(), Not(HasSubstr("barrier")));
}

}  // namespace
}  // namespace muster
