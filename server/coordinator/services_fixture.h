#ifndef MUSTER_SERVER_COORDINATOR_SERVICES_FIXTURE_H_
#define MUSTER_SERVER_COORDINATOR_SERVICES_FIXTURE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/job/test_jobs.h"
#include "common/rpc/channel.h"
#include "common/rpc/membership/protocol.h"
#include "common/rpc/rpc_credentials.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.grpc.pb.h"
#include "proto/examination.grpc.pb.h"
#include "proto/job_service.grpc.pb.h"
#include "proto/task_service.grpc.pb.h"
#include "server/coordinator/checkpoints/fake_checkpoint_archive.h"
#include "server/coordinator/cluster_service.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/coordinator/examination_service.h"
#include "server/coordinator/job_service.h"
#include "server/coordinator/store/memory_job_store_for_testing.h"
#include "server/coordinator/task_service.h"

namespace muster {

// The coordinator behind a gRPC server on a free port, and stubs of all its services.
class ServicesFixture : public ::testing::Test {
 protected:
  static constexpr char kServiceToken[] = "the token of the test";

  ServicesFixture() {
    CoordinatorOptions options;
    options.lease = absl::Minutes(5);
    options.program_token = kServiceToken;
    loop_ = *CoordinatorLoop::Create(store_, archive_, clock_, options,
                                     [](const absl::Status& s) { ADD_FAILURE() << s; });
    job_service_ = MakeJobService(*loop_);
    cluster_service_ = MakeClusterService(*loop_);
    task_service_ = MakeTaskService(*loop_);
    examination_service_ = MakeExaminationService(*loop_);
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", RpcCredentials::PlainText().server(), &port);
    for (grpc::Service* service : {job_service_.get(), cluster_service_.get(), task_service_.get(),
                                   examination_service_.get()}) {
      builder.RegisterService(service);
    }
    server_ = builder.BuildAndStart();
    const auto channel = MakeChannel(WithPort("127.0.0.1:0", port), RpcCredentials::PlainText());
    jobs_ = v1::JobService::NewStub(channel);
    cluster_ = v1::ClusterService::NewStub(channel);
    tasks_ = v1::TaskService::NewStub(channel);
    examinations_ = v1::ExaminationService::NewStub(channel);
  }

  ~ServicesFixture() override {
    loop_->Shutdown();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  }

  std::unique_ptr<grpc::ClientContext> Context() {
    auto context = std::make_unique<grpc::ClientContext>();
    SetDeadline(*context, absl::Seconds(60));
    return context;
  }

  uint64_t Register(v1::DaemonKind kind, const std::string& id) {
    v1::RegisterDaemonRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_kind(kind);
    request.set_id(id);
    request.set_process_nonce(1);
    request.set_address(id + ":1");
    request.set_slots(kind == v1::WORKER ? 2 : 0);
    v1::RegisterDaemonReply reply;
    const grpc::Status status = cluster_->RegisterDaemon(Context().get(), request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply.incarnation();
  }

  v1::HeartbeatReply Beat(const std::string& id, uint64_t incarnation) {
    v1::HeartbeatRequest request;
    request.set_id(id);
    request.set_incarnation(incarnation);
    v1::HeartbeatReply reply;
    const grpc::Status status = cluster_->Heartbeat(Context().get(), request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }

  std::string Submit() {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = SmallJob();
    request.set_request_id("r");
    v1::SubmitJobReply reply;
    const grpc::Status status = jobs_->SubmitJob(Context().get(), request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply.job_id();
  }

  v1::JobState State(const std::string& job) {
    v1::GetJobRequest request;
    request.set_job_id(job);
    v1::JobStatus status;
    EXPECT_TRUE(jobs_->GetJob(Context().get(), request, &status).ok());
    return status.state();
  }

  RealClock clock_;
  MemoryJobStore store_;
  FakeCheckpointArchive archive_;
  std::unique_ptr<CoordinatorLoop> loop_;
  std::unique_ptr<grpc::Service> job_service_, cluster_service_, task_service_,
      examination_service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ClusterService::Stub> cluster_;
  std::unique_ptr<v1::TaskService::Stub> tasks_;
  std::unique_ptr<v1::ExaminationService::Stub> examinations_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SERVICES_FIXTURE_H_
