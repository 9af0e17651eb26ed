// Tests a client whose server had no data channel at first.

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/data_channel_client.h"
#include "common/rpc/retry.h"
#include "common/rpc/rpc_credentials.h"
#include "common/transport/data_channel/channel_io.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/service/data_channel_server.h"
#include "server/shard/service/fake_partition_host.h"
#include "server/shard/service/parameter_service.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Its waits end when the test says so.
class ToldWaiter final : public Waiter {
 public:
  bool Wait(absl::Duration duration) override {
    absl::MutexLock lock(&mutex_);
    waits_.push_back(duration);
    const auto is_over = [this]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return told_ || stopped_; };
    mutex_.Await(absl::Condition(&is_over));
    return !stopped_;
  }
  void Stop() override {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }

  // Ends all waits, now and later.
  void Tell() {
    absl::MutexLock lock(&mutex_);
    told_ = true;
  }
  // Blocks until there is a first wait, and returns it.
  absl::Duration First() {
    absl::MutexLock lock(&mutex_);
    const auto is_any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !waits_.empty(); };
    mutex_.Await(absl::Condition(&is_any));
    return waits_.front();
  }

 private:
  absl::Mutex mutex_;
  std::vector<absl::Duration> waits_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// A server of parameters, with or without a data channel.
class Server {
 public:
  enum class Channel { kNone, kTcp };

  Server(FakePartitionHost& host, const std::string& address, Channel channel) {
    if (channel == Channel::kTcp) {
      DataChannelServerOptions data;
      data.listener.host = "127.0.0.1";
      data_channels_ = *DataChannelServer::Create(host, data);
    }
    service_ = ParameterService::Create(host, {}, data_channels_.get());
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort(address, RpcCredentials::PlainText().server(), &port);
    builder.RegisterService(&service_->service());
    server_ = builder.BuildAndStart();
    address_ = WithPort("127.0.0.1:0", port);
  }
  ~Server() {
    service_->Shutdown();
    server_->Shutdown();
  }

  const std::string& address() const { return address_; }

 private:
  std::unique_ptr<DataChannelServer> data_channels_;
  std::unique_ptr<ParameterService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST(DataChannelRetryTest, AChannelThatWasNotThereIsTriedAgainBesideTheCalls) {
  FakePartitionHost host(10);
  auto server = std::make_unique<Server>(host, "127.0.0.1:0", Server::Channel::kNone);
  const std::string address = server->address();
  const auto waiter = std::make_shared<ToldWaiter>();
  absl::Mutex mutex;
  std::vector<std::string> kinds;
  DataChannelClientOptions options;
  options.shared_memory_bytes = 0;
  options.waiter = waiter;
  options.opened = [&](const std::string& kind, const std::string&) {
    absl::MutexLock lock(&mutex);
    kinds.push_back(kind);
  };
  const std::unique_ptr<ParameterClient> client =
      MakeDataChannelClient(address, RpcCredentials::PlainText(), *ChannelIo::Create(), options);
  const auto pull = [&client] {
    v1::ExchangeRequest request;
    request.mutable_dense_pull();
    return StartExchange(*client, request)->Take(kPatience).status();
  };
  EXPECT_TRUE(pull().ok());
  EXPECT_GE(waiter->First(), absl::Seconds(5));
  EXPECT_LE(waiter->First(), absl::Seconds(10));
  // It goes on as it began while the client waits.
  EXPECT_TRUE(pull().ok());

  server.reset();
  server = std::make_unique<Server>(host, address, Server::Channel::kTcp);
  waiter->Tell();
  {
    absl::MutexLock lock(&mutex);
    const auto has_both = [&] { return kinds.size() == 2; };
    mutex.Await(absl::Condition(&has_both));
    EXPECT_THAT(kinds, ElementsAre("grpc", "tcp"));
  }
  // The stream of before has ended with its server, so only the channel can have brought this.
  absl::Status status = pull();
  while (absl::IsUnavailable(status)) status = pull();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(DataChannelRetryTest, AClientThatIsClosedWaitsNoLonger) {
  FakePartitionHost host(10);
  const Server server(host, "127.0.0.1:0", Server::Channel::kNone);
  const auto waiter = std::make_shared<ToldWaiter>();
  DataChannelClientOptions options;
  options.waiter = waiter;
  std::unique_ptr<ParameterClient> client = MakeDataChannelClient(
      server.address(), RpcCredentials::PlainText(), *ChannelIo::Create(), options);
  v1::ExchangeRequest request;
  request.mutable_dense_pull();
  EXPECT_TRUE(StartExchange(*client, request)->Take(kPatience).ok());
  waiter->First();
  client.reset();
  EXPECT_FALSE(waiter->Wait(absl::Seconds(1)));
}

}  // namespace
}  // namespace muster
