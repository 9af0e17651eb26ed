#include "common/rpc/channel.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/rpc_credentials.h"
#include "common/rpc/rpc_status.h"
#include "gmock/gmock.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.grpc.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class StatsService final : public v1::ParameterService::Service {
  grpc::Status GetServerStats(grpc::ServerContext*, const v1::GetServerStatsRequest*,
                              v1::GetServerStatsReply* reply) override {
    reply->set_bytes_pushed(42);
    return grpc::Status::OK;
  }
  grpc::Status DropTables(grpc::ServerContext*, const v1::DropTablesRequest*,
                          v1::DropTablesReply*) override {
    return grpc::Status::OK;
  }
};

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() {
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    builder.AddListeningPort("127.0.0.1:0", RpcCredentials::PlainText().server(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    channel_ = MakeChannel(WithPort("127.0.0.1:0", port_), RpcCredentials::PlainText());
  }

  // A unary call by name, of raw bytes.
  absl::Status Raw(const std::string& method, const std::string& request, std::string* reply) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    SetDeadline(context, absl::Seconds(30));
    grpc::Slice slice(request);
    grpc::ByteBuffer sent(&slice, 1), received;
    grpc::CompletionQueue queue;
    auto call = stub.PrepareUnaryCall(&context, method, sent, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&received, &status, nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    std::vector<grpc::Slice> slices;
    if (status.ok() && received.Dump(&slices).ok()) {
      for (const auto& s : slices) reply->append(s.begin(), s.end());
    }
    return FromGrpc(status);
  }

  StatsService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// A peer that was away for one attempt to connect is found again at once, not after gRPC's least
// time between look-ups.
TEST_F(ChannelTest, FindsARestartedPeerAgain) {
  auto stub = v1::ParameterService::NewStub(channel_);
  const auto call = [&] {
    grpc::ClientContext context;
    SetDeadline(context, absl::Seconds(30));
    v1::GetServerStatsReply reply;
    return FromGrpc(stub->GetServerStats(&context, {}, &reply));
  };
  ASSERT_TRUE(call().ok());
  server_->Shutdown();
  server_.reset();
  while (call().ok()) {
  }
  ASSERT_TRUE(absl::IsUnavailable(call()));

  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  builder.AddListeningPort(WithPort("127.0.0.1:0", port_), RpcCredentials::PlainText().server());
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
  // Calls alone, as WaitForConnected would itself ask for another attempt.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  absl::Status status = call();
  while (!status.ok() && std::chrono::steady_clock::now() < until) status = call();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ChannelTest, CarriesCalls) {
  auto stub = v1::ParameterService::NewStub(channel_);
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(30));
  v1::GetServerStatsReply reply;
  ASSERT_TRUE(stub->GetServerStats(&context, {}, &reply).ok());
  EXPECT_EQ(reply.bytes_pushed(), 42u);
}

TEST_F(ChannelTest, TakesMessagesUpToTheLimitAndNamesBothSizesBeyond) {
  auto stub = v1::ParameterService::NewStub(channel_);
  for (const auto& [bytes, code] :
       {std::pair<int64_t, absl::StatusCode>{kMaxMessageBytes - 1000, absl::StatusCode::kOk},
        {kMaxMessageBytes + 1000, absl::StatusCode::kResourceExhausted}}) {
    v1::DropTablesRequest request;
    request.set_job_id(std::string(bytes, 'j'));
    v1::DropTablesReply reply;
    grpc::ClientContext context;
    SetDeadline(context, absl::Seconds(30));
    const absl::Status status = FromGrpc(stub->DropTables(&context, request, &reply));
    EXPECT_EQ(status.code(), code) << status;
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(kMaxMessageBytes)));
    }
  }
}

TEST_F(ChannelTest, AnswersHealthAndReflection) {
  std::string reply;
  ASSERT_TRUE(Raw("/grpc.health.v1.Health/Check", "", &reply).ok());
  EXPECT_EQ(reply, std::string("\x08\x01")) << "status: SERVING";

  // ListServices, as one message of the reflection stream: list_services = "" is field 7.
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(30));
  grpc::CompletionQueue queue;
  auto stream = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag;
  bool ok = false;
  stream->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Slice slice(std::string("\x3a\x00", 2));
  stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer received;
  stream->Read(&received, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(received.Dump(&slices).ok());
  std::string services;
  for (const auto& s : slices) services.append(s.begin(), s.end());
  EXPECT_THAT(services, HasSubstr("muster.v1.ParameterService"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
  context.TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
}

TEST_F(ChannelTest, APortInUseIsAnError) {
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  StatsService service;
  builder.RegisterService(&service);
  builder.AddListeningPort(WithPort("127.0.0.1:0", port_), RpcCredentials::PlainText().server());
  EXPECT_EQ(builder.BuildAndStart(), nullptr);
}

TEST_F(ChannelTest, CallsToNobodyFailInTime) {
  server_->Shutdown();
  auto stub = v1::ParameterService::NewStub(channel_);
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(30));
  v1::GetServerStatsReply reply;
  EXPECT_EQ(FromGrpc(stub->GetServerStats(&context, {}, &reply)).code(),
            absl::StatusCode::kUnavailable);
}

TEST(WithPortTest, ReplacesOnlyPortZero) {
  EXPECT_EQ(WithPort("127.0.0.1:0", 4711), "127.0.0.1:4711");
  EXPECT_EQ(WithPort("[::1]:0", 4711), "[::1]:4711");
  EXPECT_EQ(WithPort("host:80", 80), "host:80");
  EXPECT_EQ(WithPort("host:10", 4711), "host:10");
}

}  // namespace
}  // namespace muster
