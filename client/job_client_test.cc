#include "client/job_client.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/rpc_credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.grpc.pb.h"

namespace muster {
namespace {

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

  int deletions = 0;

 private:
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
  ASSERT_EQ(client_->List(reply), absl::OkStatus());
  ASSERT_EQ(reply.jobs_size(), 2);
  EXPECT_EQ(reply.jobs(0).job_id(), "j1");
  EXPECT_EQ(reply.jobs(1).job_id(), "j2");
}

TEST_F(JobClientTest, APageThatNamesItselfIsAnError) {
  service_.endless = true;
  v1::ListJobsReply reply;
  EXPECT_EQ(client_->List(reply).code(), absl::StatusCode::kInternal);
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

}  // namespace
}  // namespace muster
