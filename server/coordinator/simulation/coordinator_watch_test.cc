// What the coordinator shows of jobs and daemons to those who watch, and whom it makes wait.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CoordinatorWatchTest : public ::testing::Test {
 protected:
  CoordinatorWatchTest() {
    for (const char* server : {"s0", "s1"}) cluster_.AddServer(server);
    for (const char* worker : {"w0", "w1"}) cluster_.AddWorker(worker);
  }

  SimulatedCluster cluster_;
};

TEST_F(CoordinatorWatchTest, WatchersSeeChangesAtMostFourTimesASecond) {
  const std::string job = *cluster_.Submit(SmallJob());
  using Update = JobRequests::StatusUpdate;
  Answer<Update> first, second, last;
  cluster_.coordinator().jobs().NextStatus(job, 0, first.call());
  ASSERT_TRUE(first.status().ok());
  cluster_.coordinator().jobs().NextStatus(job, first.get()->version, second.call());
  cluster_.MeetAll(job);
  EXPECT_FALSE(second.came()) << "too soon";
  cluster_.Pass(absl::Milliseconds(500));
  ASSERT_TRUE(second.status().ok());
  EXPECT_EQ(second.get()->status.state(), v1::RUNNING);
  EXPECT_FALSE(second.get()->last);
  cluster_.coordinator().jobs().NextStatus(job, second.get()->version, last.call());
  cluster_.Finish(job);
  cluster_.Run();
  Answer<Update> ended;
  cluster_.coordinator().jobs().NextStatus(job, 1, ended.call());
  ASSERT_TRUE(ended.status().ok());
  EXPECT_TRUE(ended.get()->last);
}

TEST_F(CoordinatorWatchTest, LogsAreStreamedAndOutliveTheCoordinator) {
  const std::string job = *cluster_.Submit(SmallJob());
  const auto append = [&](const std::string& text) {
    v1::AppendLogsRequest request;
    request.set_job_id(job);
    request.set_text(text);
    const absl::Status status = cluster_.coordinator().daemons().AppendLogs(request).status();
    cluster_.Run();
    return status;
  };
  using Update = JobRequests::LogUpdate;
  EXPECT_TRUE(append("hello\n").ok());
  v1::ReadLogsRequest request;
  request.set_job_id(job);
  request.set_follow(true);
  Answer<Update> first, second, last;
  cluster_.coordinator().jobs().NextLog(request, first.call());
  ASSERT_TRUE(first.status().ok());
  EXPECT_EQ(first.get()->chunk.text(), "hello\n");
  request.set_offset(6);
  cluster_.coordinator().jobs().NextLog(request, second.call());
  EXPECT_FALSE(second.came());
  EXPECT_TRUE(append("world\n").ok());
  ASSERT_TRUE(second.status().ok());
  EXPECT_EQ(second.get()->chunk.text(), "world\n");
  EXPECT_FALSE(second.get()->last);
  request.set_offset(12);
  cluster_.coordinator().jobs().NextLog(request, last.call());
  cluster_.Finish(job);
  ASSERT_TRUE(last.status().ok());
  EXPECT_TRUE(last.get()->last);

  cluster_.RestartCoordinator();
  Answer<Update> whole;
  request.set_offset(0);
  cluster_.coordinator().jobs().NextLog(request, whole.call());
  ASSERT_TRUE(whole.status().ok());
  EXPECT_EQ(whole.get()->chunk.text(), "hello\nworld\n");
  v1::AppendLogsRequest gone;
  gone.set_job_id("j0-none");
  EXPECT_EQ(cluster_.coordinator().daemons().AppendLogs(gone).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorWatchTest, AnEndIsToldOnceTheLastTextOfAllTasksIsThere) {
  using Log = JobRequests::LogUpdate;
  using Update = JobRequests::StatusUpdate;
  enum class End { kCancelled, kFailed, kWorkersLost, kSilent };
  for (const End end : {End::kCancelled, End::kFailed, End::kWorkersLost, End::kSilent}) {
    SCOPED_TRACE(static_cast<int>(end));
    const std::string job = *cluster_.Submit(SmallJob());
    cluster_.MeetAll(job);
    const std::vector<v1::TaskOrder> orders = cluster_.Orders(job);
    ASSERT_EQ(orders.size(), 2u);
    Answer<Update> first;
    cluster_.coordinator().jobs().NextStatus(job, 0, first.call());
    const uint64_t seen = first.get()->version;
    v1::ReadLogsRequest follow;
    follow.set_job_id(job);
    follow.set_follow(true);
    Answer<Update> watched;
    Answer<Log> followed;
    cluster_.coordinator().jobs().NextStatus(job, seen, watched.call());
    cluster_.coordinator().jobs().NextLog(follow, followed.call());
    // Daemons have not heard of the end, and tasks still write.
    for (const char* worker : {"w0", "w1"}) cluster_.CutLink(worker);
    if (end == End::kFailed) {
      // The other's daemon has not.
      const bool first_has_it = cluster_.daemon("w0").reports.at(0).slot() == orders[0].slot();
      cluster_.HealLink(first_has_it ? "w0" : "w1");
      cluster_.End(orders[0], 3, "no");
    } else {
      v1::CancelJobRequest cancel;
      cancel.set_job_id(job);
      ASSERT_TRUE(cluster_.coordinator().jobs().Cancel(cancel).ok());
    }
    cluster_.Run();
    EXPECT_EQ(cluster_.State(job), end == End::kFailed ? v1::FAILED : v1::CANCELLED);
    EXPECT_FALSE(watched.came());
    EXPECT_FALSE(followed.came());
    if (end == End::kSilent) {
      // They hold their leases and never tell.
      for (int second = 0; second < 31; ++second) {
        for (const char* worker : {"w0", "w1"}) {
          v1::HeartbeatRequest request;
          request.set_id(worker);
          request.set_incarnation(cluster_.daemon(worker).incarnation);
          for (const v1::TaskReport& report : cluster_.daemon(worker).reports) {
            *request.add_tasks() = report;
          }
          Answer<v1::HeartbeatReply> answer;
          cluster_.coordinator().daemons().Heartbeat(request, answer.call());
        }
        EXPECT_FALSE(watched.came() && second < 29);
        cluster_.clock.Advance(absl::Seconds(1));
        ASSERT_TRUE(cluster_.coordinator().Tick().ok());
      }
    } else {
      v1::AppendLogsRequest last;
      last.set_job_id(job);
      last.set_text("the last line\n");
      ASSERT_TRUE(cluster_.coordinator().daemons().AppendLogs(last).ok());
      cluster_.Run();
      ASSERT_TRUE(followed.came());
      EXPECT_EQ(followed.get()->chunk.text(), "the last line\n");
      EXPECT_FALSE(followed.get()->last);
      EXPECT_FALSE(watched.came());
      if (end == End::kWorkersLost) cluster_.Pass(absl::Minutes(1));
      for (const char* worker : {"w0", "w1"}) cluster_.HealLink(worker);
      cluster_.BeatAll();
    }
    ASSERT_TRUE(watched.status().ok());
    EXPECT_TRUE(watched.get()->last);
    Answer<Log> rest;
    follow.set_offset(14);
    cluster_.coordinator().jobs().NextLog(follow, rest.call());
    ASSERT_TRUE(rest.status().ok());
    EXPECT_TRUE(rest.get()->last);
    for (const char* worker : {"w0", "w1"}) cluster_.HealLink(worker);
    cluster_.BeatAll();
  }
}

TEST_F(CoordinatorWatchTest, PartsOfALogAreReadBySlotTimeAndLines) {
  const std::string job = *cluster_.Submit(SmallJob());
  const auto append = [&](uint32_t slot, const std::string& text) {
    v1::AppendLogsRequest request;
    request.set_job_id(job);
    request.set_slot(slot);
    request.set_text(text);
    ASSERT_TRUE(cluster_.coordinator().daemons().AppendLogs(request).ok());
    cluster_.Run();
  };
  append(0, "early 0\n");
  append(1, "early 1\n");
  cluster_.clock.Advance(absl::Minutes(10));
  append(0, "late 0\n");
  append(1, "late 1\n");
  using Update = JobRequests::LogUpdate;
  const auto read = [&](auto part) {
    v1::ReadLogsRequest request;
    request.set_job_id(job);
    part(request);
    Answer<Update> answer;
    cluster_.coordinator().jobs().NextLog(request, answer.call());
    EXPECT_TRUE(answer.came() && answer.get()->last);
    EXPECT_EQ(answer.get()->chunk.next_offset(), 30);
    return answer.get()->chunk.text();
  };
  using Request = v1::ReadLogsRequest;
  EXPECT_EQ(read([](Request& r) { r.set_slot(0); }), "early 0\nlate 0\n");
  EXPECT_EQ(read([](Request& r) { r.set_tail_lines(3); }), "early 1\nlate 0\nlate 1\n");
  EXPECT_EQ(read([](Request& r) { r.set_tail_lines(0); }), "");
  EXPECT_EQ(read([](Request& r) { r.set_since_ms(60'000); }), "late 0\nlate 1\n");
  EXPECT_EQ(read([](Request& r) { r.set_since_ms(~uint64_t{0}); }).size(), 30);
  EXPECT_EQ(read([](Request& r) {
              r.set_slot(1);
              r.set_tail_lines(1);
              r.set_since_ms(3'600'000);
            }),
            "late 1\n");
  EXPECT_EQ(read([](Request& r) {
              r.set_offset(23);
              r.set_tail_lines(100);
            }),
            "late 1\n")
      << "a reader that goes on gets nothing twice";

  Request nobody;
  nobody.set_job_id(job);
  nobody.set_slot(9);
  Answer<Update> refused;
  cluster_.coordinator().jobs().NextLog(nobody, refused.call());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().message(),
            absl::StrCat("job ", job, " has no slot 9; it has slots 0 to 1"));

  // Whoever follows a slot from its last line on waits past what others write.
  v1::ReadLogsRequest follow;
  follow.set_job_id(job);
  follow.set_follow(true);
  follow.set_slot(1);
  follow.set_tail_lines(0);
  Answer<Update> next;
  cluster_.coordinator().jobs().NextLog(follow, next.call());
  append(0, "more 0\n");
  EXPECT_FALSE(next.came());
  append(1, "more 1\n");
  ASSERT_TRUE(next.status().ok());
  EXPECT_EQ(next.get()->chunk.text(), "more 1\n");
  EXPECT_EQ(next.get()->chunk.missing_bytes(), 0);
}

TEST_F(CoordinatorWatchTest, StatusShowsWhatServersReplayed) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  v1::HeartbeatRequest request;
  request.set_id(cluster_.Status(job).partitions(0).replicas(0).server_id());
  request.set_incarnation(cluster_.daemon(request.id()).incarnation);
  v1::ReplayStatus& replay = *request.add_replays();
  replay.set_job_id(job);
  replay.set_generation(cluster_.Status(job).generation());
  replay.set_partitions(2);
  replay.set_records(70);
  replay.set_bytes(4000);
  replay.set_seconds(0.5);
  // Of a generation that is over.
  *request.add_replays() = replay;
  request.mutable_replays(1)->set_generation(replay.generation() + 1);
  request.mutable_replays(1)->set_records(9);
  EXPECT_EQ(cluster_.Status(job).replays_size(), 0);
  Answer<v1::HeartbeatReply> first, again;
  cluster_.coordinator().daemons().Heartbeat(request, first.call());
  ASSERT_EQ(cluster_.Status(job).replays_size(), 1);
  const v1::ReplayStatus shown = cluster_.Status(job).replays(0);
  EXPECT_EQ(shown.server_id(), request.id());
  EXPECT_EQ(shown.partitions(), 2u);
  EXPECT_EQ(shown.records(), 70u);
  EXPECT_EQ(shown.bytes(), 4000u);
  EXPECT_EQ(shown.seconds(), 0.5);
  // As far as it has come since.
  request.mutable_replays(0)->set_records(80);
  cluster_.coordinator().daemons().Heartbeat(request, again.call());
  EXPECT_EQ(cluster_.Status(job).replays(0).records(), 80u);
}

TEST_F(CoordinatorWatchTest, HeartbeatsWaitForOrders) {
  v1::HeartbeatRequest request;
  request.set_id("w0");
  request.set_incarnation(cluster_.daemon("w0").incarnation);
  request.set_seen_orders_version(cluster_.daemon("w0").seen_version);
  request.set_poll_ms(1000);
  Answer<v1::HeartbeatReply> changed, quiet;
  cluster_.coordinator().daemons().Heartbeat(request, changed.call());
  cluster_.Run();
  EXPECT_FALSE(changed.came());
  v1::SubmitJobRequest submit;
  *submit.mutable_spec() = SmallJob();
  // Their order in memory is random.
  for (int i = 0; i < 20; ++i) (*submit.mutable_spec()->mutable_labels())[absl::StrCat(i)] = "v";
  submit.set_request_id("r");
  Answer<v1::SubmitJobReply> submitted;
  cluster_.coordinator().submits().Submit(submit, submitted.call());
  cluster_.Run();
  ASSERT_TRUE(submitted.status().ok());
  ASSERT_TRUE(changed.status().ok());
  EXPECT_EQ(changed.get()->tasks_size(), 1);

  request.set_seen_orders_version(changed.get()->orders_version());
  v1::TaskReport& report = *request.add_tasks();
  report.set_state(v1::TaskReport::RUNNING);
  cluster_.coordinator().daemons().Heartbeat(request, quiet.call());
  cluster_.Run();
  EXPECT_FALSE(quiet.came());
  cluster_.clock.Advance(absl::Seconds(1));
  cluster_.Run();
  ASSERT_TRUE(quiet.status().ok());
  EXPECT_EQ(quiet.get()->orders_version(), request.seen_orders_version());
}

TEST_F(CoordinatorWatchTest, ShutdownAnswersAllParkedCalls) {
  const std::string job = *cluster_.Submit(SmallJob());
  auto rendezvous = cluster_.Rendezvous(*cluster_.Order(job, 0));
  auto map = cluster_.GetShardMap(*cluster_.Order(job, 0), 99, absl::Seconds(30));
  Answer<JobRequests::StatusUpdate> watch;
  cluster_.coordinator().jobs().NextStatus(job, 1000, watch.call());
  v1::ReadLogsRequest follow;
  follow.set_job_id(job);
  follow.set_follow(true);
  Answer<JobRequests::LogUpdate> logs;
  cluster_.coordinator().jobs().NextLog(follow, logs.call());
  cluster_.coordinator().Shutdown();
  for (const absl::Status& status : {rendezvous.status(), map.status(), logs.status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(watch.came());
}

TEST_F(CoordinatorWatchTest, AServerThatATaskCannotReachIsNamedInStatusAndEvents) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const std::string why = "open tables on server s0 at no-such-host:7: DNS resolution failed";
  const v1::TaskOrder first = *cluster_.Order(job, 0);
  const v1::TaskOrder second = *cluster_.Order(job, 1);
  EXPECT_EQ(cluster_.TellWait(first, why), absl::OkStatus());
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "slot 0: " + why);
  EXPECT_EQ(cluster_.TellWait(second, why), absl::OkStatus());
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "slot 0, 1: " + why);
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 1 waits: " + why));
  // One event a wait, however often it is told and whatever the last attempt's error says.
  EXPECT_EQ(cluster_.TellWait(first, "now another reason"), absl::OkStatus());
  EXPECT_FALSE(cluster_.HasEvent(job, "now another reason"));
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("slot 0: now another reason"));
  // It ends with the task, or when the task says so.
  cluster_.Die(first);
  EXPECT_THAT(cluster_.Status(job).waiting_for(), Not(HasSubstr("now another reason")));
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("slot 1: " + why));
  EXPECT_EQ(cluster_.TellWait(second, ""), absl::OkStatus());
  EXPECT_THAT(cluster_.Status(job).waiting_for(), Not(HasSubstr(why)));
}

TEST_F(CoordinatorWatchTest, AReportOfAWaitIsNoProgress) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  cluster_.ProgressAll(job, 3);
  cluster_.AddWorker("w2");
  cluster_.Die(*cluster_.Order(job, 0));
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  // The new task lives, but the job is not whole before it has reached its servers.
  EXPECT_EQ(cluster_.TellWait(*cluster_.Order(job, 0), "no route to s0"), absl::OkStatus());
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_EQ(cluster_.Status(job).progress().step(), 3);
}

// What a task ends with reaches status and events whatever bytes it has, and at once where trying
// again cures nothing.
TEST_F(CoordinatorWatchTest, AnErrorThatIsNotUtf8EndsTheJobWithAllThatCanBeSaid) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  cluster_.End(*cluster_.Order(job, 0), static_cast<int>(absl::StatusCode::kInvalidArgument),
               "gr\xf6sse.txt: no such file");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("gr\\xf6sse.txt: no such file"));
  EXPECT_TRUE(cluster_.HasEvent(job, "gr\\xf6sse.txt: no such file"));
}

TEST_F(CoordinatorWatchTest, ReportsThatCannotBeAreRefusedAndLeaveNoTrace) {
  constexpr uint64_t kMost = ~uint64_t{0};
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  ASSERT_TRUE(cluster_.Progress(order, 4).ok());
  const std::string before = cluster_.Status(job).progress().SerializeAsString();
  const auto report = [&](auto change) {
    v1::ReportProgressRequest request;
    *request.mutable_task() = SimulatedCluster::Identity(order);
    request.set_clock(5);
    request.set_steps(1);
    request.set_examples(4);
    change(request);
    const absl::Status status = cluster_.coordinator().tasks().ReportProgress(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  using Report = v1::ReportProgressRequest;
  EXPECT_THAT(report([](Report& r) { r.set_clock(kMost); }), HasSubstr("clock is 18446744073709"));
  EXPECT_THAT(report([](Report& r) { r.set_clock(11); }),
              HasSubstr("clock is 11; the job's last step is 10"));
  EXPECT_THAT(report([](Report& r) { r.set_steps(11); }), HasSubstr("steps is 11"));
  EXPECT_THAT(report([](Report& r) { r.set_examples(kMost); }), HasSubstr("examples is 1844674"));
  EXPECT_THAT(report([](Report& r) { r.set_examples(1 << 20); }), HasSubstr("most of 1 steps"));
  EXPECT_THAT(report([](Report& r) { r.set_loss_sum(std::nan("")); }),
              HasSubstr("loss_sum is nan"));
  EXPECT_THAT(report([](Report& r) { r.set_waiting_seconds(HUGE_VAL); }),
              HasSubstr("waiting_seconds is inf"));
  EXPECT_THAT(report([](Report& r) { r.set_bytes_pushed(kMost); }), HasSubstr("bytes_pushed is"));
  EXPECT_EQ(cluster_.Status(job).progress().SerializeAsString(), before);

  v1::ReportEvaluationRequest evaluation;
  *evaluation.mutable_task() = SimulatedCluster::Identity(order);
  const auto evaluate = [&](auto change) {
    v1::ReportEvaluationRequest request = evaluation;
    request.set_clock(4);
    request.set_examples(10);
    change(request);
    Answer<v1::ReportEvaluationReply> answer;
    cluster_.coordinator().tasks().ReportEvaluation(request, answer.call());
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(answer.status().message());
  };
  using Share = v1::ReportEvaluationRequest;
  EXPECT_THAT(evaluate([](Share& r) { r.set_clock(kMost); }), HasSubstr("clock is"));
  EXPECT_THAT(evaluate([](Share& r) { r.set_loss_sum(std::nan("")); }), HasSubstr("loss_sum is"));
  EXPECT_THAT(evaluate([](Share& r) { r.set_correct(11); }), HasSubstr("labels is 10"));
  EXPECT_THAT(evaluate([](Share& r) { r.set_examples(21); }), HasSubstr("hold out is 20"));
  EXPECT_THAT(evaluate([](Share& r) { r.add_positive_bins(kMost); }),
              HasSubstr("positive_bins is"));
  EXPECT_THAT(evaluate([](Share& r) { r.mutable_errors()->set_deviations(HUGE_VAL); }),
              HasSubstr("deviations is inf"));
  EXPECT_THAT(evaluate([](Share& r) { r.mutable_confusion()->add_counts(kMost); }),
              HasSubstr("counts is"));
  EXPECT_THAT(evaluate([](Share& r) { r.mutable_confusion()->set_classes(3); }),
              HasSubstr("confusion is present; jobs that only evaluate report it"));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
}

// The ids of the jobs that a request lists, from as many pages as it takes.
std::vector<std::string> Listed(JobRequests& jobs, v1::ListJobsRequest request) {
  std::vector<std::string> ids;
  do {
    const absl::StatusOr<v1::ListJobsReply> page = jobs.List(request);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) break;
    for (const v1::JobStatus& job : page->jobs()) ids.push_back(job.job_id());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return ids;
}

// Jobs that wait: there are no daemons.
class ListJobsTest : public ::testing::Test {
 protected:
  SimulatedCluster cluster_;
};

TEST_F(ListJobsTest, JobsAreListedByStateOwnerAndName) {
  JobRequests& jobs = cluster_.coordinator().jobs();
  std::vector<std::string> ids;
  for (const auto& [name, owner] :
       std::vector<std::pair<std::string, std::string>>{{"digits", "ada"},
                                                        {"digits-2", "ada"},
                                                        {"gr\xc3\xb6\xc3\x9f"
                                                         "e",
                                                         "bob"},
                                                        {"digits", "bob"}}) {
    v1::JobSpec spec = SmallJob();
    spec.set_name(name);
    spec.set_owner(owner);
    ids.push_back(*cluster_.Submit(spec));
  }
  v1::CancelJobRequest cancel;
  cancel.set_job_id(ids[3]);
  ASSERT_TRUE(jobs.Cancel(cancel).ok());
  const auto listed = [&jobs](auto filter) {
    v1::ListJobsRequest request;
    filter(request);
    std::vector<std::string> all = Listed(jobs, request);
    // However many there are to a page, and in either order.
    for (uint32_t size : {1u, 2u, 3u}) {
      request.set_page_size(size);
      EXPECT_EQ(Listed(jobs, request), all) << size;
      v1::ListJobsRequest newest = request;
      newest.set_newest_first(true);
      std::vector<std::string> reversed = Listed(jobs, newest);
      std::reverse(reversed.begin(), reversed.end());
      EXPECT_EQ(reversed, all) << size;
    }
    return all;
  };
  using Request = v1::ListJobsRequest;
  using Ids = std::vector<std::string>;
  EXPECT_EQ(listed([](Request&) {}), ids);
  EXPECT_EQ(listed([](Request& r) { r.set_owner("ada"); }), (Ids{ids[0], ids[1]}));
  EXPECT_EQ(listed([](Request& r) { r.set_owner("ad"); }), Ids{});
  EXPECT_EQ(listed([](Request& r) { r.set_name("digits"); }), (Ids{ids[0], ids[3]}));
  EXPECT_EQ(listed([](Request& r) { r.set_name("digits*"); }), (Ids{ids[0], ids[1], ids[3]}));
  EXPECT_EQ(listed([](Request& r) { r.set_name("*i*-?"); }), Ids{ids[1]});
  EXPECT_EQ(listed([](Request& r) { r.set_name("gr??e"); }), Ids{ids[2]});
  EXPECT_EQ(listed([](Request& r) { r.set_name("*"); }), ids);
  EXPECT_EQ(listed([](Request& r) { r.set_name("Digits"); }), Ids{});
  EXPECT_EQ(listed([](Request& r) { r.add_states(v1::CANCELLED); }), Ids{ids[3]});
  EXPECT_EQ(listed([](Request& r) {
              r.add_states(v1::PENDING);
              r.add_states(v1::RUNNING);
              r.set_name("digits");
            }),
            Ids{ids[0]});
  EXPECT_EQ(listed([](Request& r) { r.set_job("digits"); }), (Ids{ids[0], ids[3]}));
  EXPECT_EQ(listed([](Request& r) { r.set_job("digits*"); }), Ids{}) << "no pattern";
  EXPECT_EQ(listed([&ids](Request& r) { r.set_job(ids[1]); }), Ids{ids[1]});

  // An id stands for its job, whatever others are called.
  v1::JobSpec spec = SmallJob();
  spec.set_name(ids[0]);
  const std::string other = *cluster_.Submit(spec);
  EXPECT_EQ(listed([&ids](Request& r) { r.set_job(ids[0]); }), Ids{ids[0]});
  EXPECT_EQ(listed([&ids](Request& r) { r.set_name(ids[0]); }), Ids{other});
}

TEST_F(ListJobsTest, JobsAreListedByLabels) {
  JobRequests& jobs = cluster_.coordinator().jobs();
  using Labels = std::map<std::string, std::string>;
  std::vector<std::string> ids;
  for (const Labels& labels :
       {Labels{}, Labels{{"team", "vision"}}, Labels{{"team", "vision"}, {"run", "7"}},
        Labels{{"team", ""}, {"run", "70"}}}) {
    v1::JobSpec spec = SmallJob();
    spec.mutable_labels()->insert(labels.begin(), labels.end());
    ids.push_back(*cluster_.Submit(spec));
  }
  const auto listed = [&jobs](const Labels& labels) {
    v1::ListJobsRequest request;
    request.mutable_labels()->insert(labels.begin(), labels.end());
    const std::vector<std::string> all = Listed(jobs, request);
    request.set_page_size(1);
    EXPECT_EQ(Listed(jobs, request), all);
    return all;
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(listed({{"team", "vision"}}), (Ids{ids[1], ids[2]}));
  EXPECT_EQ(listed({{"team", "vision"}, {"run", "7"}}), Ids{ids[2]});
  EXPECT_EQ(listed({{"run", "7*"}}), (Ids{ids[2], ids[3]}));
  EXPECT_EQ(listed({{"team", "*"}}), (Ids{ids[1], ids[2], ids[3]}));
  EXPECT_EQ(listed({{"team", ""}}), Ids{ids[3]});
  EXPECT_EQ(listed({{"vision", "*"}}), Ids{});
}

TEST_F(ListJobsTest, TheShortViewLeavesOutWhatIsLong) {
  JobRequests& jobs = cluster_.coordinator().jobs();
  v1::JobSpec spec = SmallJob();
  spec.set_name("digits");
  spec.set_owner("ada");
  spec.set_namespace_("n");
  spec.set_description("why");
  (*spec.mutable_labels())["team"] = "vision";
  const std::string id = *cluster_.Submit(spec);
  for (uint64_t clock : {1, 2}) {
    cluster_.coordinator().table().Find(id)->record.add_evaluations()->set_clock(clock);
  }
  v1::ListJobsRequest request;
  const v1::JobStatus whole = jobs.List(request)->jobs(0);
  EXPECT_TRUE(whole.spec().has_model());
  EXPECT_EQ(whole.evaluations_size(), 2);
  request.set_view(v1::ListJobsRequest::SHORT);
  v1::JobStatus shown = jobs.List(request)->jobs(0);
  EXPECT_EQ(shown.evaluations_size(), 1);
  EXPECT_EQ(shown.evaluations(0).clock(), 2);
  v1::JobSpec expected;
  expected.set_name("digits");
  expected.set_owner("ada");
  expected.set_namespace_("n");
  expected.set_description("why");
  (*expected.mutable_labels())["team"] = "vision";
  EXPECT_EQ(shown.spec().DebugString(), expected.DebugString());
  // All the rest is the same.
  *shown.mutable_spec() = whole.spec();
  *shown.mutable_evaluations() = whole.evaluations();
  EXPECT_FALSE(whole.given().empty());
  *shown.mutable_given() = whole.given();
  EXPECT_EQ(shown.DebugString(), whole.DebugString());
}

TEST_F(ListJobsTest, AHostilePatternOfNamesEnds) {
  v1::JobSpec spec = SmallJob();
  spec.set_name(std::string(250, 'a'));
  cluster_.Submit(spec).value();
  v1::ListJobsRequest request;
  for (int i = 0; i < 125; ++i) request.mutable_name()->append("*a");
  request.mutable_name()->append("b");
  EXPECT_EQ(Listed(cluster_.coordinator().jobs(), request).size(), 0u);
}

}  // namespace
}  // namespace muster
