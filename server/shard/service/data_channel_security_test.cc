// Which way a client takes where it and the server do not agree on what is to be encrypted.

#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "common/rpc/certificates_for_testing.h"
#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/data_channel_client.h"
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

using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(60);

// A server whose rpcs and data channels are as told, and a client without shared memory.
class DataChannelSecurityTest : public ::testing::Test {
 protected:
  ~DataChannelSecurityTest() override {
    client_.reset();
    if (server_ == nullptr) return;
    service_->Shutdown();
    server_->Shutdown();
  }

  void Serve(const RpcCredentials& credentials, ChannelSecurity security) {
    DataChannelServerOptions data;
    data.listener.host = "127.0.0.1";
    data.listener.security = security;
    data_channels_ = *DataChannelServer::Create(host_, data);
    service_ = ParameterService::Create(host_, {}, data_channels_.get());
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", credentials.server(), &port);
    builder.RegisterService(&service_->service());
    server_ = builder.BuildAndStart();
    address_ = WithPort("127.0.0.1:0", port);
  }

  // Pushes with these credentials; the way that was taken.
  std::string WayOf(const RpcCredentials& credentials) {
    DataChannelClientOptions options;
    options.shared_memory_bytes = 0;
    options.opened = [this](const std::string& kind, const std::string& reason) {
      absl::MutexLock lock(&mutex_);
      kind_ = kind;
      reason_ = reason;
    };
    client_ = MakeDataChannelClient(address_, credentials, io_, std::move(options));
    v1::ExchangeRequest push;
    push.mutable_dense_push();
    const auto pushed =
        StartExchange(*client_, std::move(push), Payload::Of(std::vector<float>(100, 1)))
            ->Take(kTimeout);
    EXPECT_TRUE(pushed.ok()) << pushed.status();
    absl::MutexLock lock(&mutex_);
    return kind_;
  }

  CertificatesForTesting cluster_{::testing::TempDir(), "cluster"};
  const RpcCredentials certified_ =
      *RpcCredentials::Of(cluster_.Issue("everybody"), TlsUse::kCallsAndServes);
  const std::shared_ptr<ChannelIo> io_ = *ChannelIo::Create();
  FakePartitionHost host_{100};
  std::unique_ptr<DataChannelServer> data_channels_;
  std::unique_ptr<ParameterService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::unique_ptr<ParameterClient> client_;
  absl::Mutex mutex_;
  std::string kind_ ABSL_GUARDED_BY(mutex_);
  std::string reason_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(DataChannelSecurityTest, BothUnderTlsMeetUnderTls) {
  Serve(certified_, ChannelSecurity::kTls);
  EXPECT_EQ(WayOf(certified_), "tls");
}

// A server of an older release. The rpc is encrypted, its data channel is not.
TEST_F(DataChannelSecurityTest, AClientUnderTlsTakesNoPlainChannel) {
  Serve(certified_, ChannelSecurity::kPlain);
  EXPECT_EQ(WayOf(certified_), "grpc");
  absl::MutexLock lock(&mutex_);
  EXPECT_THAT(reason_, HasSubstr("data channel is plain"));
  const v1::GetServerStatsReply stats = service_->Stats();
  for (const v1::ChannelStats& channel : stats.channels()) {
    EXPECT_EQ(channel.requests(), channel.kind() == "grpc" ? 1u : 0u) << channel.kind();
  }
}

}  // namespace
}  // namespace muster
