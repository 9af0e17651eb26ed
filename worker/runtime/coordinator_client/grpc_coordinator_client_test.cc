#include "worker/runtime/coordinator_client/grpc_coordinator_client.h"

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/rpc_credentials.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/task_service.grpc.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers with what it was told to, then OK; remembers who called.
class ScriptedService final : public v1::TaskService::Service {
 public:
  grpc::Status Rendezvous(grpc::ServerContext*, const v1::RendezvousRequest* request,
                          v1::RendezvousReply* reply) override {
    reply->set_round(6);
    return Answer("rendezvous", request->task());
  }
  grpc::Status ReportProgress(grpc::ServerContext*, const v1::ReportProgressRequest* request,
                              v1::ReportProgressReply* reply) override {
    reply->set_meet_after_round(5);
    return Answer("progress", request->task());
  }
  grpc::Status ReportCollectives(grpc::ServerContext*, const v1::ReportCollectivesRequest* request,
                                 v1::ReportCollectivesReply*) override {
    return Answer("collectives", request->task());
  }
  grpc::Status ReportEvaluation(grpc::ServerContext*, const v1::ReportEvaluationRequest* request,
                                v1::ReportEvaluationReply* reply) override {
    reply->set_stop(true);
    reply->mutable_result()->set_value(0.5);
    return Answer("evaluation", request->task());
  }
  grpc::Status CommitCheckpoint(grpc::ServerContext*, const v1::CommitCheckpointRequest* request,
                                v1::CommitCheckpointReply*) override {
    grpc::Status answer = Answer("checkpoint", request->task());
    if (parks) released.WaitForNotification();
    return answer;
  }
  grpc::Status GetShardMap(grpc::ServerContext*, const v1::GetShardMapRequest* request,
                           v1::ShardMap* map) override {
    map->set_version(request->min_version() + request->wait_ms());
    return Answer("map", request->task());
  }

  void Script(std::vector<grpc::Status> answers) {
    absl::MutexLock lock(&mutex_);
    answers_.assign(answers.begin(), answers.end());
  }
  std::vector<std::string> calls() const {
    absl::MutexLock lock(&mutex_);
    return calls_;
  }
  void AwaitCall() const {
    absl::MutexLock lock(&mutex_);
    const auto came = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !calls_.empty(); };
    mutex_.Await(absl::Condition(&came));
  }

  // True if checkpoints are answered no earlier than they are released.
  bool parks = false;
  absl::Notification released;

 private:
  grpc::Status Answer(const std::string& call, const v1::TaskIdentity& task) {
    absl::MutexLock lock(&mutex_);
    calls_.push_back(absl::StrCat(call, " ", task.job_id(), "/", task.generation(), "/",
                                  task.slot(), "/", task.incarnation()));
    if (answers_.empty()) return grpc::Status::OK;
    grpc::Status answer = answers_.front();
    answers_.pop_front();
    return answer;
  }

  mutable absl::Mutex mutex_;
  std::deque<grpc::Status> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
};

// Does not wait, but only so many times.
class CountingWaiter final : public Waiter {
 public:
  explicit CountingWaiter(int waits) : left_(waits) {}
  bool Wait(absl::Duration) override { return left_-- > 0; }
  void Stop() override { left_ = 0; }

 private:
  int left_;
};

class GrpcCoordinatorClientTest : public ::testing::Test {
 protected:
  GrpcCoordinatorClientTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
    v1::TaskIdentity task;
    task.set_job_id("job");
    task.set_generation(2);
    task.set_slot(3);
    task.set_incarnation(4);
    client_ =
        MakeGrpcCoordinatorClient(address_, RpcCredentials::PlainText(), task, {}, waiter_,
                                  [this](absl::string_view line) { log_.emplace_back(line); });
  }

  ScriptedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  CountingWaiter waiter_{5};
  std::vector<std::string> log_;
  std::unique_ptr<CoordinatorClient> client_;
};

const grpc::Status kAway(grpc::StatusCode::UNAVAILABLE, "restarting");

TEST_F(GrpcCoordinatorClientTest, EveryCallNamesTheTask) {
  EXPECT_EQ(client_->Rendezvous({})->round(), 6);
  EXPECT_EQ(client_->ReportProgress({})->meet_after_round(), 5);
  EXPECT_EQ(client_->ReportCollectives({}), absl::OkStatus());
  v1::ReportEvaluationReply reply = client_->ReportEvaluation({}).value();
  EXPECT_TRUE(reply.stop());
  EXPECT_EQ(reply.result().value(), 0.5);
  EXPECT_EQ(client_->CommitCheckpoint({}, {}), absl::OkStatus());
  EXPECT_EQ(client_->GetShardMap(3, absl::Milliseconds(4))->version(), 7);
  EXPECT_THAT(service_.calls(),
              ElementsAre("rendezvous job/2/3/4", "progress job/2/3/4", "collectives job/2/3/4",
                          "evaluation job/2/3/4", "checkpoint job/2/3/4", "map job/2/3/4"));
}

TEST_F(GrpcCoordinatorClientTest, BlockingCallsOutlastARestart) {
  service_.Script({kAway, kAway});
  EXPECT_EQ(client_->Rendezvous({}).status(), absl::OkStatus());
  EXPECT_EQ(service_.calls().size(), 3);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("is away, rendezvous waits for it: restarting"),
                                HasSubstr("is back")));
}

TEST_F(GrpcCoordinatorClientTest, ParkedCallsAreRepeatedAtTheirDeadlineWithoutAWord) {
  service_.Script({grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "still parked")});
  EXPECT_TRUE(client_->ReportEvaluation({}).ok());
  EXPECT_EQ(service_.calls().size(), 2);
  EXPECT_TRUE(log_.empty());
}

TEST_F(GrpcCoordinatorClientTest, AStoppedWaiterEndsTheRepeats) {
  service_.Script(std::vector<grpc::Status>(10, kAway));
  EXPECT_EQ(client_->CommitCheckpoint({}, {}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(service_.calls().size(), 6);
}

TEST_F(GrpcCoordinatorClientTest, AStopEndsACommitThatTheCoordinatorHolds) {
  service_.parks = true;
  absl::Status answer;
  {
    std::jthread commit(
        [&](std::stop_token stop) { answer = client_->CommitCheckpoint({}, std::move(stop)); });
    service_.AwaitCall();
  }
  EXPECT_EQ(answer.code(), absl::StatusCode::kCancelled);
  service_.released.Notify();
}

TEST_F(GrpcCoordinatorClientTest, AStopEndsACommitThatWaitsForTheCoordinator) {
  service_.Script({kAway, kAway});
  const auto client =
      MakeGrpcCoordinatorClient(address_, RpcCredentials::PlainText(), {},
                                {.first = absl::Hours(10)}, waiter_, [](absl::string_view) {});
  absl::Status answer;
  {
    std::jthread commit(
        [&](std::stop_token stop) { answer = client->CommitCheckpoint({}, std::move(stop)); });
    service_.AwaitCall();
  }
  // Stopped on its way back, or while it waited.
  EXPECT_FALSE(answer.ok());
  EXPECT_EQ(service_.calls().size(), 1);
}

TEST_F(GrpcCoordinatorClientTest, ProgressAndShardMapsAreTriedOnce) {
  service_.Script({kAway, kAway, kAway});
  EXPECT_EQ(client_->ReportProgress({}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client_->ReportCollectives({}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client_->GetShardMap(0, absl::ZeroDuration()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(service_.calls().size(), 3);
}

TEST_F(GrpcCoordinatorClientTest, RefusalsAreAnswers) {
  service_.Script({grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "slot 1 has other data"),
                   grpc::Status(grpc::StatusCode::ABORTED, "fenced")});
  const absl::Status status = client_->Rendezvous({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "slot 1 has other data");
  EXPECT_EQ(client_->CommitCheckpoint({}, {}).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace muster
