#include "client/cluster/job_client.h"

#include <grpcpp/grpcpp.h>
#include <pwd.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/rpc_credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.grpc.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A coordinator with one job at most, whose answers to deletions get lost as often as told.
class OneJob final : public v1::JobService::Service {
 public:
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::JobStatus* reply) override {
    if (!there) return Missing(*request);
    reply->set_job_id(request->job_id());
    return grpc::Status::OK;
  }

  grpc::Status DeleteJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                         v1::DeleteJobReply*) override {
    ++deletions;
    if (!there) return Missing(*request);
    there = false;
    if (!loses_answer) return grpc::Status::OK;
    return {grpc::StatusCode::UNAVAILABLE, "the connection broke"};
  }

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobReply*) override {
    owners.push_back(request->spec().owner());
    return grpc::Status::OK;
  }

  std::vector<std::string> owners;
  bool there = true;
  bool loses_answer = false;
  // The second page names itself.
  bool endless = false;
  // Three pages, the second one empty.
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsReply* reply) override {
    const std::string& token = request->page_token();
    if (token != "b") reply->add_jobs()->set_job_id(token.empty() ? "j1" : "j2");
    if (token.empty()) reply->set_next_page_token("b");
    if (token == "b") reply->set_next_page_token(endless ? "b" : "c");
    return grpc::Status::OK;
  }

  // Text of a log of 100 bytes, of which the first 40 were dropped.
  grpc::Status ReadLogs(grpc::ServerContext*, const v1::ReadLogsRequest* request,
                        grpc::ServerWriter<v1::LogChunk>* writer) override {
    log_requests.push_back(*request);
    v1::LogChunk chunk;
    if (log_requests.size() == 1) {
      chunk.set_offset(40);
      chunk.set_text("one\n");
      chunk.set_missing_bytes(40);
      chunk.set_next_offset(60);
      writer->Write(chunk);
      return {grpc::StatusCode::UNAVAILABLE, "the connection broke"};
    }
    chunk.set_offset(70);
    chunk.set_text("two\n");
    chunk.set_next_offset(100);
    writer->Write(chunk);
    return grpc::Status::OK;
  }

  // Sends a history whose job goes back from step 5 to step 2 meanwhile.
  grpc::Status ReadMetrics(grpc::ServerContext*, const v1::ReadMetricsRequest*,
                           grpc::ServerWriter<v1::MetricsChunk>* writer) override {
    if (loses_answer && ++history_reads == 1) {
      writer->Write(HistoryOf("train/gone", 1, 9));
      return {grpc::StatusCode::UNAVAILABLE, "the connection broke"};
    }
    v1::MetricsChunk chunk = HistoryOf("train/loss", 1, 5);
    chunk.add_marks()->set_clock(1);
    writer->Write(chunk);
    writer->Write(HistoryOf("train/learning_rate", 1, 3));
    chunk = HistoryOf("train/loss", 1, 2);
    chunk.add_marks()->set_clock(1);
    chunk.add_marks()->set_clock(2);
    writer->Write(chunk);
    chunk = HistoryOf("train/learning_rate", 3, 4);
    chunk.mutable_series(0)->set_replaces_from(3);
    writer->Write(chunk);
    return grpc::Status::OK;
  }

  int history_reads = 0;
  int deletions = 0;
  std::vector<v1::ReadLogsRequest> log_requests;

 private:
  static v1::MetricsChunk HistoryOf(const std::string& name, uint64_t first, uint64_t last) {
    v1::MetricsChunk chunk;
    v1::Series& series = *chunk.add_series();
    series.set_name(name);
    for (uint64_t step = first; step <= last; ++step) {
      v1::SeriesPoint& point = *series.add_points();
      point.set_first_step(step);
      point.set_last_step(step);
    }
    return chunk;
  }

  static grpc::Status Missing(const v1::GetJobRequest& request) {
    return {grpc::StatusCode::NOT_FOUND, absl::StrCat("there is no job ", request.job_id())};
  }
};

class JobClientTest : public ::testing::Test {
 protected:
  JobClientTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    client_ = std::make_unique<JobClient>(absl::StrCat("127.0.0.1:", port),
                                          *RpcCredentials::Of({}, TlsUse::kCalls));
  }

  OneJob service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<JobClient> client_;
};

TEST_F(JobClientTest, ListsAllPages) {
  v1::ListJobsReply reply;
  reply.add_jobs()->set_job_id("of an earlier list");
  ASSERT_EQ(client_->List({}, reply), absl::OkStatus());
  ASSERT_EQ(reply.jobs_size(), 2);
  EXPECT_EQ(reply.jobs(0).job_id(), "j1");
  EXPECT_EQ(reply.jobs(1).job_id(), "j2");
}

TEST_F(JobClientTest, APageThatNamesItselfIsAnError) {
  service_.endless = true;
  v1::ListJobsReply reply;
  EXPECT_EQ(client_->List({}, reply).code(), absl::StatusCode::kInternal);
}

TEST_F(JobClientTest, StopsListingAtALimit) {
  v1::ListJobsReply reply;
  ASSERT_EQ(client_->List({}, reply, 1), absl::OkStatus());
  ASSERT_EQ(reply.jobs_size(), 1);
  EXPECT_EQ(reply.jobs(0).job_id(), "j1");
  EXPECT_EQ(reply.next_page_token(), "b");
}

// It lists j1 whoever is asked for.
TEST_F(JobClientTest, ACoordinatorThatKnowsNoNamesIsAskedById) {
  EXPECT_EQ(client_->Find("j1").value(), "j1");
  EXPECT_EQ(client_->Find("j2").value(), "j2");
  EXPECT_EQ(client_->Find("j2", JobClient::Naming::kOne).value(), "j2");
  EXPECT_EQ(client_->Find("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JobClientTest, AHistoryThatChangesWhileItIsReadShowsEachStepOnce) {
  service_.loses_answer = true;
  v1::MetricsChunk history;
  ASSERT_EQ(client_->History({}, history), absl::OkStatus());
  ASSERT_EQ(history.series_size(), 2);
  std::vector<std::vector<uint64_t>> steps(2);
  for (int i = 0; i < 2; ++i) {
    for (const v1::SeriesPoint& point : history.series(i).points()) {
      steps[i].push_back(point.last_step());
    }
  }
  EXPECT_EQ(history.series(0).name(), "train/loss");
  EXPECT_THAT(steps[0], ElementsAre(1, 2));
  EXPECT_EQ(history.series(1).name(), "train/learning_rate");
  EXPECT_THAT(steps[1], ElementsAre(1, 2, 3, 4));
  ASSERT_EQ(history.marks_size(), 2);
  EXPECT_EQ(history.marks(1).clock(), 2);
}

TEST_F(JobClientTest, ALogThatBreaksOffGoesOnWithoutBeingCutAgain) {
  v1::ReadLogsRequest request;
  request.set_job_id("j1");
  request.set_slot(3);
  request.set_tail_lines(2);
  request.set_since_ms(1000);
  std::string text;
  ASSERT_EQ(
      client_->Logs(request, [&text](absl::string_view piece) { text += std::string(piece); }),
      absl::OkStatus());
  EXPECT_EQ(text, "[40 bytes of older log were dropped, of this slot or others]\none\ntwo\n");
  ASSERT_EQ(service_.log_requests.size(), 2u);
  EXPECT_EQ(service_.log_requests[0].tail_lines(), 2);
  EXPECT_EQ(service_.log_requests[1].offset(), 60);
  EXPECT_EQ(service_.log_requests[1].slot(), 3);
  EXPECT_FALSE(service_.log_requests[1].has_tail_lines());
  EXPECT_EQ(service_.log_requests[1].since_ms(), 0);
}

TEST_F(JobClientTest, DeletesAJobOnce) {
  EXPECT_EQ(client_->Delete("j1"), absl::OkStatus());
  EXPECT_EQ(service_.deletions, 1);
}

TEST_F(JobClientTest, ADeletionWhoseAnswerWasLostSucceedsWhenRepeated) {
  service_.loses_answer = true;
  EXPECT_EQ(client_->Delete("j1"), absl::OkStatus());
  EXPECT_EQ(service_.deletions, 2);
}

TEST_F(JobClientTest, AJobThatIsNotThereIsNotDeleted) {
  service_.there = false;
  const absl::Status status = client_->Delete("nosuch");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nosuch"));
  EXPECT_EQ(service_.deletions, 0);
}

TEST_F(JobClientTest, StreamsAHistoryAndBeginsAgainAfterAnInterruption) {
  service_.loses_answer = true;
  std::vector<std::string> names;
  const auto note = [&](const v1::MetricsChunk& chunk) {
    names.push_back(chunk.series(0).name());
    return names.size() == 4 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  EXPECT_EQ(client_->StreamHistory({}, note), absl::ResourceExhaustedError("full"));
  EXPECT_THAT(names, ElementsAre("train/gone", "train/loss", "train/learning_rate", "train/loss"));
  names = {"", "", "", ""};
  EXPECT_EQ(client_->StreamHistory({}, note), absl::OkStatus());
  EXPECT_EQ(names.size(), 8);
}

TEST_F(JobClientTest, FillsInTheOwnerThatASubmittedJobLacks) {
  const passwd* user = getpwuid(geteuid());
  v1::JobSpec spec;
  std::string id;
  EXPECT_TRUE(client_->Submit(spec, id).ok());
  spec.set_owner("somebody else");
  EXPECT_TRUE(client_->Submit(spec, id).ok());
  EXPECT_THAT(service_.owners, ElementsAre(user == nullptr ? "" : user->pw_name, "somebody else"));
}

}  // namespace
}  // namespace muster
