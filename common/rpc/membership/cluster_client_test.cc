#include "common/rpc/membership/cluster_client.h"

#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/channel.h"
#include "common/rpc/membership/protocol.h"
#include "common/rpc/rpc_credentials.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.grpc.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class FakeClusterService final : public v1::ClusterService::Service {
 public:
  grpc::Status RegisterDaemon(grpc::ServerContext*, const v1::RegisterDaemonRequest* request,
                              v1::RegisterDaemonReply* reply) override {
    registered = *request;
    if (request->id().empty()) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "id is empty");
    }
    reply->set_incarnation(9);
    reply->set_lease_ms(5000);
    return grpc::Status::OK;
  }

  // Parks polls until the caller gives up.
  grpc::Status Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                         v1::HeartbeatReply* reply) override {
    if (request->poll_ms() > 0) {
      polled.Notify();
      absl::Mutex mutex;
      absl::MutexLock lock(&mutex);
      const auto cancelled = [context] { return context->IsCancelled(); };
      while (!cancelled()) {
        mutex.AwaitWithTimeout(absl::Condition(&cancelled), absl::Milliseconds(1));
      }
      return grpc::Status::CANCELLED;
    }
    reply->set_orders_version(request->seen_orders_version() + 1);
    return grpc::Status::OK;
  }

  v1::RegisterDaemonRequest registered;
  absl::Notification polled;
};

class ClusterClientTest : public ::testing::Test {
 protected:
  ClusterClientTest() {
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", RpcCredentials::PlainText().server(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    client_ = MakeGrpcClusterClient(WithPort("127.0.0.1:0", port), RpcCredentials::PlainText());
    daemon_.kind = DaemonIdentity::Kind::kWorker;
    daemon_.id = "w1";
    daemon_.process_nonce = 12;
    daemon_.address = "10.0.0.1:7";
    daemon_.slots = 3;
    daemon_.memory_bytes = 1 << 20;
    daemon_.devices = {{"a device", 1 << 30}};
  }

  FakeClusterService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ClusterClient> client_;
  DaemonIdentity daemon_;
};

TEST_F(ClusterClientTest, RegistersWithAllThatTheDaemonIs) {
  const auto registration = client_->Register(daemon_, absl::Seconds(30));
  ASSERT_TRUE(registration.ok()) << registration.status();
  EXPECT_EQ(registration->incarnation, 9u);
  EXPECT_EQ(registration->lease, absl::Seconds(5));
  EXPECT_EQ(service_.registered.protocol_version(), kProtocolVersion);
  EXPECT_EQ(service_.registered.kind(), v1::WORKER);
  EXPECT_EQ(service_.registered.id(), "w1");
  EXPECT_EQ(service_.registered.process_nonce(), 12u);
  EXPECT_EQ(service_.registered.address(), "10.0.0.1:7");
  EXPECT_EQ(service_.registered.slots(), 3u);
  EXPECT_EQ(service_.registered.memory_bytes(), 1u << 20);
  ASSERT_EQ(service_.registered.devices_size(), 1);
  EXPECT_EQ(service_.registered.devices(0).name(), "a device");
  EXPECT_EQ(service_.registered.devices(0).memory_bytes(), 1u << 30);
}

TEST_F(ClusterClientTest, ErrorsSayWhoAnswered) {
  daemon_.id.clear();
  const absl::Status status = client_->Register(daemon_, absl::Seconds(30)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("registration at coordinator 127.0.0.1:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("id is empty"));
}

TEST_F(ClusterClientTest, InterruptEndsAPoll) {
  std::thread interrupter([&] {
    service_.polled.WaitForNotification();
    client_->Interrupt();
  });
  v1::HeartbeatRequest request;
  request.set_poll_ms(60000);
  EXPECT_EQ(client_->Heartbeat(request, absl::Seconds(90)).status().code(),
            absl::StatusCode::kCancelled);
  interrupter.join();
}

TEST_F(ClusterClientTest, InterruptBetweenCallsEndsTheNextOneOnly) {
  client_->Interrupt();
  EXPECT_EQ(client_->Heartbeat({}, absl::Seconds(30)).status().code(),
            absl::StatusCode::kCancelled);
  const auto reply = client_->Heartbeat({}, absl::Seconds(30));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->orders_version(), 1u);
}

TEST_F(ClusterClientTest, AnAbsentCoordinatorIsUnavailable) {
  server_->Shutdown();
  EXPECT_EQ(client_->Register(daemon_, absl::Seconds(30)).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace muster
